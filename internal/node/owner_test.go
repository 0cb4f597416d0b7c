package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// residents is a directory of users that a test changes. Its users have no entry in /etc/passwd.
type residents struct {
	mu    sync.Mutex
	known map[uint32]account.Account
	gids  map[uint32][]uint32
	away  bool
}

func (r *residents) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return account.Account{}, false, account.ErrAway
	}
	a, known := r.known[uid]
	return a, known, nil
}

func (r *residents) GIDs(_ context.Context, uid uint32) ([]uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, account.ErrAway
	}
	return r.gids[uid], nil
}

func (r *residents) change(f func(*residents)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// village has the users 61001 and 61002. The home of the first is no folder of this machine.
func village() *residents {
	r := &residents{known: map[uint32]account.Account{}, gids: map[uint32][]uint32{}}
	for uid, login := range map[uint32]string{61001: "ada", 61002: "grace"} {
		r.known[uid] = account.Account{UID: uid, GID: uid, Login: login, Home: "/nowhere/" + login, Shell: "/bin/sh"}
		r.gids[uid] = []uint32{uid, uid + 100, uid + 200}
	}
	return r
}

// shareMachine makes the node one of a machine that users share.
func shareMachine(t *testing.T, users *residents) func(*Config) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: pods of several users")
	}
	return func(c *Config) {
		r, err := process.New(process.Options{Root: filepath.Join(c.DataDir, "pods"), Shim: rig.Shim(t), Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		c.Runtime.Close()
		c.Runtime, c.Shared, c.Accounts = r, true, users
		c.UserFiles = userfiles.New(userfiles.Options{Program: rig.Shim(t)})
		t.Cleanup(c.UserFiles.Close)
		// Users pass through the folders above their own.
		for at := filepath.Dir(c.DataDir); len(at) > len(os.TempDir()); at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ofUser puts a pod into a namespace, with a folder that its user may enter.
func ofUser(namespace string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Namespace = namespace
		p.Spec.Containers[0].WorkingDir = "/"
	}
}

func (w *world) podIn(namespace, name, what string, condition func(*corev1.Pod) bool) (pod *corev1.Pod) {
	w.t.Helper()
	w.until("pod "+name+" to "+what, func() bool {
		var err error
		if pod, err = w.client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			w.t.Fatal(err)
		}
		return condition(pod)
	})
	return pod
}

// printed is the output of the container of a pod that was made with a UID.
func (w *world) printed(uid string) string {
	w.t.Helper()
	r, err := process.OpenLogs(filepath.Join(w.dir(uid), "containers", "main", "0", "logs"), process.LogQuery{Tail: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// saying is a condition: a container waits with this reason.
func saying(text string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting != nil && strings.Contains(s.State.Waiting.Message, text) {
				return true
			}
		}
		return false
	}
}

// TestPodsOfOwners: on a machine that users share, each pod runs as the owner of its namespace, and no
// other pod runs.
func TestPodsOfOwners(t *testing.T) {
	users := village()
	eachTier(t, shareMachine(t, users), func(t *testing.T, w *world) {
		const script = `id -u; id -g; id -G; umask; echo $USER $LOGNAME $SHELL $PATH; test -w "$HOME" && test "$HOME" != /nowhere/$USER && echo home; grep CapBnd /proc/self/status`
		for uid := 61001; uid <= 61002; uid++ {
			name := fmt.Sprint("of-", uid)
			w.create(newPod(name, script).with(ofUser(fmt.Sprint("u-", uid))))
			pod := w.podIn(fmt.Sprint("u-", uid), name, "end", ended)
			want := fmt.Sprintf("%[1]d\n%[1]d\n%[1]d %[2]d %[3]d\n0077\n%[4]s %[4]s /bin/sh /usr/local/bin:/usr/bin:/bin\nhome\nCapBnd:\t0000000000000000\n",
				uid, uid+100, uid+200, users.known[uint32(uid)].Login)
			if got := w.printed(name); pod.Status.Phase != corev1.PodSucceeded || got != want {
				t.Errorf("%s: %q, want %q; %+v", name, got, want, pod.Status)
			}
		}
		w.create(newPod("system", "true"))
		w.await("system", "be refused", saying(`metadata.namespace: "default" belongs to no user`))
		w.create(newPod("root", "true").with(ofUser("u-61001")).with(func(p *corev1.Pod) {
			zero := int64(0)
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &zero}
		}))
		w.podIn("u-61001", "root", "be refused", saying("runAsUser: 0 cannot be honoured: the pod runs as user 61001"))
	})
}

// TestDirectoryOfUsersAway: a pod of a user whom the directory does not know, or while it is away, waits
// with the reason. What runs goes on, and commands and restarts of the node find it.
func TestDirectoryOfUsersAway(t *testing.T) {
	users := village()
	w := newWorld(t, shareMachine(t, users))
	ends := rig.NewPipe(t)
	if err := errors.Join(os.Chmod(filepath.Dir(ends.Path()), 0o755), os.Chmod(filepath.Dir(filepath.Dir(ends.Path())), 0o755), os.Chmod(ends.Path(), 0o666)); err != nil {
		t.Fatal(err)
	}
	w.create(newPod("runs", ends.Await()+"; id -G").with(ofUser("u-61001")))
	w.podIn("u-61001", "runs", "run", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	users.change(func(r *residents) { r.away = true })
	w.create(newPod("late", "id -G").with(ofUser("u-61002")))
	w.podIn("u-61002", "late", "wait", saying(account.ErrAway.Error()))
	users.change(func(r *residents) { r.away = false; delete(r.known, 61001); delete(r.gids, 61001) })
	if pod := w.podIn("u-61002", "late", "end", ended); pod.Status.Phase != corev1.PodSucceeded || w.printed("late") != "61002 61102 61202\n" {
		t.Errorf("the pod that waited: %+v, %q", pod.Status, w.printed("late"))
	}
	w.create(newPod("unknown", "true").with(ofUser("u-61001")))
	w.podIn("u-61001", "unknown", "wait", saying("the directory of users does not know uid 61001"))
	w.stop()
	w.start()
	runs := w.podIn("u-61001", "runs", "run still", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if runs.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Fatalf("the pod of the removed user: %+v", runs.Status)
	}
	ends.Open()
	if pod := w.podIn("u-61001", "runs", "end", ended); pod.Status.Phase != corev1.PodSucceeded || w.printed("runs") != "61001 61101 61201\n" {
		t.Errorf("the pod of the removed user: %+v, %q", pod.Status, w.printed("runs"))
	}
}

// TestRunAsUser: in a Muster of one user that root runs, runAsUser gives the groups and variables of that
// account, and none of root's.
func TestRunAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: another user")
	}
	users := village()
	t.Setenv("PATH", "/usr/local/sbin:"+os.Getenv("PATH"))
	eachTier(t, func(c *Config) { c.Accounts = users }, func(t *testing.T, w *world) {
		w.create(newPod("other", `id -u; id -g; id -G; umask; echo $USER; case $PATH in *sbin*) echo sbin;; esac`).with(func(p *corev1.Pod) {
			uid := int64(61001)
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &uid}
			p.Spec.Containers[0].WorkingDir = "/"
		}))
		pod := w.await("other", "end", ended)
		if got, want := w.printed("other"), "61001\n61001\n61001 61101 61201\n0022\nada\n"; pod.Status.Phase != corev1.PodSucceeded || got != want {
			t.Errorf("%q, want %q; %+v", got, want, pod.Status)
		}
	})
}

// TestSharedNeedsARuntime: a node of a machine that users share does not start with a runtime of another
// kind.
func TestSharedNeedsARuntime(t *testing.T) {
	r, err := process.New(process.Options{Root: t.TempDir(), Shim: rig.Shim(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := Config{Name: nodeName, DataDir: t.TempDir(), Runtime: r, HostIP: "192.0.2.7", Shared: true}
	if err := c.complete(); err == nil {
		t.Error("the configuration is complete")
	}
}
