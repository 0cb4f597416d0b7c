package identity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/process"
)

// list is a directory of users; away: it gives no answer.
type list struct {
	accounts map[uint32]account.Account
	gids     map[uint32][]uint32
	away     bool
}

func (l list) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	if l.away {
		return account.Account{}, false, account.ErrAway
	}
	a, known := l.accounts[uid]
	return a, known, nil
}

func (l list) GIDs(_ context.Context, uid uint32) ([]uint32, error) {
	if l.away {
		return nil, account.ErrAway
	}
	return l.gids[uid], nil
}

func people() list {
	l := list{accounts: map[uint32]account.Account{}, gids: map[uint32][]uint32{}}
	for uid, a := range map[uint32]account.Account{
		0:     {Login: "root", Home: "/root", Shell: "/bin/bash"},
		61001: {Login: "ada", Home: "/home/ada", Shell: "/bin/zsh"},
		61002: {Login: "", Home: "/"},
	} {
		a.UID, a.GID = uid, uid
		l.accounts[uid], l.gids[uid] = a, []uint32{uid}
	}
	for i := range uint32(70) {
		l.gids[61001] = append(l.gids[61001], 62000+i)
	}
	return l
}

func podIn(namespace string, s *corev1.PodSecurityContext) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: corev1.PodSpec{SecurityContext: s, Containers: make([]corev1.Container, 1)}}
}

func number(n uint32) *uint32 { return &n }
func some(n int64) *int64     { return &n }

// TestOwners: on a machine that users share, the namespace says whom a container runs as, whatever its
// fields say.
func TestOwners(t *testing.T) {
	u := New(Options{Accounts: people(), Shared: true, Processes: 500})
	pod := podIn("u-61001", &corev1.PodSecurityContext{RunAsUser: some(0), RunAsGroup: some(0)})
	user, err := u.Of(t.Context(), pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	user.spare = "/spare"
	var got process.Spec
	if err := user.Set(&got); err != nil {
		t.Fatal(err)
	}
	want := process.Spec{UID: number(61001), GID: number(61001), Groups: people().gids[61001], Owner: &process.Owner{Umask: 0o077, Processes: 500, SpareHome: "/spare"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for namespace, c := range map[string]struct {
		accounts Accounts
		err      error
		says     string
	}{
		"default":  {people(), ErrNoOwner, "belongs to no user"},
		"u-061001": {people(), ErrNoOwner, "belongs to no user"},
		"u-65534":  {people(), ErrNoOwner, "belongs to no user"},
		"u-61009":  {people(), nil, "the directory of users does not know uid 61009"},
		"u-61001":  {list{away: true}, account.ErrAway, ""},
	} {
		pod := podIn(namespace, nil)
		got, err := New(Options{Accounts: c.accounts, Shared: true}).Of(t.Context(), pod, &pod.Spec.Containers[0])
		if err == nil || (c.err != nil && !errors.Is(err, c.err)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v %q", namespace, err, c.err, c.says)
		}
		if got.Set(&process.Spec{}) == nil {
			t.Errorf("%s: a user was made nevertheless", namespace)
		}
	}
}

// TestZero: the zero value is no user.
func TestZero(t *testing.T) {
	s := process.Spec{}
	if err := (User{}).Set(&s); err == nil {
		t.Errorf("the zero value is a user: %+v", s)
	}
}

// TestOneUser: in a Muster of one user, a container runs as whoever runs Muster, or as the pod says, with
// the groups of that account.
func TestOneUser(t *testing.T) {
	u := New(Options{Accounts: people()})
	own := uint32(os.Getegid())
	for name, c := range map[string]struct {
		pod  *corev1.PodSecurityContext
		want process.Spec
	}{
		"nothing":                  {nil, process.Spec{}},
		"Muster's own":             {&corev1.PodSecurityContext{RunAsUser: some(int64(os.Geteuid())), RunAsGroup: some(int64(own))}, process.Spec{}},
		"another user":             {&corev1.PodSecurityContext{RunAsUser: some(61001)}, process.Spec{UID: number(61001), GID: number(61001), Groups: people().gids[61001]}},
		"another user and group":   {&corev1.PodSecurityContext{RunAsUser: some(61001), RunAsGroup: some(5)}, process.Spec{UID: number(61001), GID: number(5), Groups: people().gids[61001]}},
		"another group":            {&corev1.PodSecurityContext{RunAsGroup: some(61005)}, process.Spec{GID: number(61005)}},
		"a user without account":   {&corev1.PodSecurityContext{RunAsUser: some(61009)}, process.Spec{UID: number(61009)}},
		"such a user, and a group": {&corev1.PodSecurityContext{RunAsUser: some(61009), RunAsGroup: some(61009)}, process.Spec{UID: number(61009), GID: number(61009)}},
	} {
		pod := podIn("u-61001", c.pod)
		user, err := u.Of(t.Context(), pod, &pod.Spec.Containers[0])
		var got process.Spec
		if err := errors.Join(err, user.Set(&got)); err != nil {
			t.Fatal(name, ": ", err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTell: a user has the variables of a session of their own, and nothing of root's. What the container
// sets stays.
func TestTell(t *testing.T) {
	for name, value := range map[string]string{
		"PATH": "/root/bin:/usr/local/sbin:/opt/tools/bin:/usr/bin", "HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/rootsh",
		"LD_LIBRARY_PATH": "/root/lib", "LANG": "C.UTF-8", "LC_ALL": "", "LC_CTYPE": "", "TZ": "UTC",
	} {
		t.Setenv(name, value)
	}
	common := []string{"LANG=C.UTF-8", "LC_ALL=", "LC_CTYPE=", "TZ=UTC"}
	for name, c := range map[string]struct {
		shared bool
		uid    int64
		set    map[string]string
		want   []string
	}{
		"an owner":              {true, 61001, nil, []string{"HOME=/home/ada", "LOGNAME=ada", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/zsh", "USER=ada"}},
		"an owner, by the pod":  {true, 61001, map[string]string{"PATH": "/mine", "HOME": "/there", "SHELL": "/bin/fish"}, []string{"HOME=/there", "LOGNAME=ada", "PATH=/mine", "SHELL=/bin/fish", "USER=ada"}},
		"an owner with nothing": {true, 61002, nil, []string{"HOME=/spare", "PATH=/usr/local/bin:/usr/bin:/bin"}},
		"root as an owner":      {true, 0, nil, []string{"HOME=/root", "LOGNAME=root", "PATH=" + rootPath, "SHELL=/bin/bash", "USER=root"}},
		"asked":                 {false, 61001, nil, []string{"LD_LIBRARY_PATH=/root/lib", "LOGNAME=ada", "PATH=/opt/tools/bin:/usr/bin:/usr/local/bin:/bin", "SHELL=/bin/zsh", "USER=ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podIn(fmt.Sprint("u-", c.uid), &corev1.PodSecurityContext{RunAsUser: &c.uid})
			user, err := New(Options{Accounts: people(), Shared: c.shared}).Of(t.Context(), pod, &pod.Spec.Containers[0])
			if err != nil {
				t.Fatal(err)
			}
			v := &expansion.Variables{}
			for name, value := range c.set {
				v.Set(name, value)
			}
			user.Tell(v)
			if c.shared {
				user.HomeIn(v, "/spare")
			}
			got := map[string]bool{}
			for _, e := range v.List() {
				got[e] = true
			}
			want := map[string]bool{}
			for _, e := range append(c.want, common...) {
				want[e] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
