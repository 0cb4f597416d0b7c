package posts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

const (
	owner    = 1000
	stranger = 33
	work     = "0b1c.stage"
)

// as runs f with the rights of a user to files. The thread ends with it.
func as(t *testing.T, uid int, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if _, _, code := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0); code != 0 {
			done <- code
			return
		}
		done <- f()
	}()
	return <-done
}

func podOf(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "p", UID: "11-22", CreationTimestamp: metav1.NewTime(time.Unix(77, 0)),
		Labels: map[string]string{v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "3", v1alpha1.LabelAttempt: "2"},
	}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "foreman", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: v1alpha1.StageDriver, VolumeAttributes: map[string]string{"work": work, shift.JobAttribute: "tag"},
	}}}}}}
}

// newPosts serves what is heard to a function.
func newPosts(t *testing.T, dir string, serve func(namespace string) http.Handler) *Posts {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a post of another user needs root")
	}
	program := filepath.Join(filepath.Dir(dir), "worker")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Dir: dir, Worker: program, Serve: serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// folderOfPosts is one that all users may enter.
func folderOfPosts(t *testing.T) string {
	t.Helper()
	return filepath.Join(rig.Passable(t), "posts")
}

func (p *Posts) make(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	folder, err := p.Post(t.Context(), pod, "foreman", work, userfiles.User{UID: owner, GID: owner})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// say sends a request to a post as a user, and returns the answer.
func say(t *testing.T, uid int, folder, path string, header http.Header) (status int, said string, err error) {
	t.Helper()
	var conn net.Conn
	err = as(t, uid, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(folder, shift.SocketFile))
		return err
	})
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://post"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(text)), nil
}

// TestPostOfAUser: the owner of the namespace reaches the foreman, and no other user; nobody but root changes
// or lists a post.
func TestPostOfAUser(t *testing.T) {
	p := newPosts(t, folderOfPosts(t), func(namespace string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := r.Header
			_, _ = fmt.Fprint(w, namespace, h.Get(shift.MemberHeader), h.Get(shift.PodHeader), h.Get(shift.BornHeader), h.Get(shift.JobHeader), h.Get(shift.AttemptHeader))
		})
	})
	folder := p.make(t, podOf("u-1000"))
	lie := http.Header{shift.MemberHeader: {"chief/0"}, shift.PodHeader: {"other"}, shift.JobHeader: {"other"}, shift.AttemptHeader: {"9"}, shift.BornHeader: {"1"}}
	if status, said, err := say(t, owner, folder, shift.Path+work, lie); err != nil || status != http.StatusOK || said != "u-1000worker/311-2277tag2" {
		t.Errorf("its owner hears %d %q %v", status, said, err)
	}
	for _, path := range []string{shift.Path + "0b1c.other", shift.Path + work + "2", shift.Path + work + "/../0b1c.other", "/"} {
		if status, said, err := say(t, owner, folder, path, nil); err != nil || status != http.StatusNotFound {
			t.Errorf("at %s its owner hears %d %q %v", path, status, said, err)
		}
	}
	for name, tries := range map[string]func() error{
		"connects": func() error {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(folder, shift.SocketFile))
			if err == nil {
				_ = conn.Close()
			}
			return err
		},
		"reads the token":  func() error { _, err := os.ReadFile(filepath.Join(folder, shift.TokenFile)); return err },
		"lists the posts":  func() error { _, err := os.ReadDir(filepath.Dir(filepath.Dir(folder))); return err },
		"lists the pod's":  func() error { _, err := os.ReadDir(filepath.Dir(folder)); return err },
		"makes a file":     func() error { return os.WriteFile(filepath.Join(folder, "x"), nil, 0o600) },
		"removes a socket": func() error { return os.Remove(filepath.Join(folder, shift.SocketFile)) },
	} {
		if err := as(t, stranger, tries); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user %s: %v", name, err)
		}
		if name == "connects" || name == "reads the token" {
			continue
		}
		if err := as(t, owner, tries); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("its owner %s: %v", name, err)
		}
	}
	err := as(t, owner, func() error {
		_, err := os.ReadFile(filepath.Join(folder, shift.TokenFile))
		_, opened := os.ReadDir(folder) // as the worker opens it
		return errors.Join(err, opened)
	})
	if err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(folder, programFile)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the program is %v, %v", info, err)
	}
}

// TestPostOutlivesMuster: the next Muster serves the folder that pods of the one before see, and a pod that is
// gone leaves nothing.
func TestPostOutlivesMuster(t *testing.T) {
	dir := folderOfPosts(t)
	serve := func(says string) func(string) http.Handler {
		return func(string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, says) })
		}
	}
	first := newPosts(t, dir, serve("first"))
	folder := first.make(t, podOf("u-1000"))
	seen, err := os.Open(folder) // as a mount would
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = seen.Close() }()
	first.Close()
	second := newPosts(t, dir, serve("second"))
	if again := second.make(t, podOf("u-1000")); again != folder || second.make(t, podOf("u-1000")) != folder {
		t.Errorf("the folder is %s, was %s", again, folder)
	}
	if _, said, err := say(t, owner, fmt.Sprintf("/proc/self/fd/%d", seen.Fd()), shift.Path+work, nil); err != nil || said != "second" {
		t.Errorf("who sees the folder hears %q, %v", said, err)
	}
	for range 2 {
		if err := second.Forget("11-22"); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestOthersWork: a pod that names a work of another namespace is refused.
func TestOthersWork(t *testing.T) {
	f, err := foreman.New(foreman.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(context.Context, foreman.Datum, *os.Root) error { return nil }
	if _, err := f.Open(t.Context(), foreman.Spec{Name: work, Owner: "u-1000", Lent: true, Datums: []foreman.Datum{{ID: "d"}}, Fetch: fetch}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close(work) })
	for namespace, status := range map[string]int{"u-1000": http.StatusOK, "u-33": http.StatusUnauthorized, "": http.StatusUnauthorized} {
		pod := podOf(namespace)
		pod.UID = types.UID("of-" + namespace)
		p := newPosts(t, folderOfPosts(t), f.HandlerFor)
		folder := p.make(t, pod)
		got, said, err := 0, "", error(nil)
		for range 100 { // until the files are there
			if got, said, err = say(t, owner, folder, shift.Path+work+shift.SharedPath, nil); got != http.StatusServiceUnavailable {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if err != nil || got != status {
			t.Errorf("namespace %q hears %d %q, %v; want %d", namespace, got, said, err, status)
		}
	}
}

// TestNamesOfPosts: no name leads out of the folder of posts.
func TestNamesOfPosts(t *testing.T) {
	p := newPosts(t, folderOfPosts(t), func(string) http.Handler { return http.NotFoundHandler() })
	for _, c := range []struct {
		uid          types.UID
		volume, work string
	}{
		{"..", "foreman", work}, {"", "foreman", work}, {"a/b", "foreman", work}, {"u", "..", work}, {"u", "", work}, {"u", "a/b", work},
		{"u", "foreman", ""}, {"u", "foreman", "../x.y"}, {"u", "foreman", "stage"}, {"u", "foreman", strings.Repeat("a", 101) + ".s"},
	} {
		pod := podOf("u-1000")
		pod.UID = c.uid
		if folder, err := p.Post(t.Context(), pod, c.volume, c.work, userfiles.User{UID: owner, GID: owner}); err == nil {
			t.Errorf("%+v has the folder %s", c, folder)
		}
	}
	if err := errors.Join(p.Forget(".."), p.Forget("")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.options.Dir); err != nil {
		t.Error(err)
	}
}
