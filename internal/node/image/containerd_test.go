//go:build cluster

package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/cluster"
)

// containerd starts a real one, and a Store that uses it.
func containerd(t *testing.T) (*cluster.Runtime, *Store) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("containerd wants root: run `make test-images` as root")
	}
	r, err := cluster.StartRuntime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r, open(t, r.Socket, "/home/a")
}

func open(t *testing.T, socket, owner string) *Store {
	t.Helper()
	s, err := Open(Options{Socket: socket, Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// small is an image of one file.
func small(name, content string) cluster.Image {
	return cluster.Image{
		Name: name, Files: []cluster.File{{To: "/only/here", Content: content}},
		Env: []string{"A=b"}, Entrypoint: []string{"/entry"}, Command: []string{"arg"}, User: "7:8", Dir: "/only",
	}
}

func TestImportedImage(t *testing.T) {
	ctx := t.Context()
	r, s := containerd(t)
	if version, err := s.Check(ctx); err != nil || version == "" {
		t.Fatalf("Check = %q, %v", version, err)
	}
	const name = "muster.test/small:1"
	if _, err := s.Fetch(ctx, Request{Holder: "uid", Name: name, Policy: PolicyNever}); ReasonOf(err) != NeverPulled || err == nil {
		t.Errorf("what is not there and not to be pulled: %v", err)
	}
	if err := r.Import(ctx, Namespace, small(name, "content")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Fetch(ctx, Request{Holder: "uid", Name: name, Pulling: func() { t.Error("it is here already") }})
	if err != nil {
		t.Fatal(err)
	}
	if got.Env[0] != "A=b" || got.Entrypoint[0] != "/entry" || got.Command[0] != "arg" || got.User != "7:8" || got.Dir != "/only" || !strings.HasPrefix(got.Digest, "sha256:") {
		t.Errorf("the image is %+v", got)
	}
	// Unpacked, with the file, and each root a layer of its own above it.
	var uppers []string
	for _, id := range []string{"uid/a/0", "uid/a/1", "uid/a/1"} { // the last was never used, and is made anew
		mounts, err := s.Root(ctx, "uid", id, got)
		if err != nil {
			t.Fatal(err)
		}
		if len(mounts) != 1 || mounts[0].Type != "overlay" {
			t.Fatalf("the root of %s is %+v", id, mounts)
		}
		uppers = append(uppers, option(mounts[0], "upperdir"))
		data, err := os.ReadFile(filepath.Join(option(mounts[0], "lowerdir"), "only/here"))
		if err != nil || string(data) != "content" {
			t.Errorf("the image's file holds %q, %v", data, err)
		}
	}
	if uppers[0] == uppers[1] {
		t.Errorf("two containers write into %s", uppers[0])
	}
	if _, err := s.Root(ctx, "uid", "other/a/0", got); err == nil {
		t.Error("a pod made a root of another")
	}
	// What ended goes, and so does the rest with the pod; the image stays.
	if err := s.RemoveRoot(ctx, "uid/a/0"); err != nil {
		t.Error(err)
	}
	checkHolders(t, s, "uid")
	checkHolders(t, open(t, r.Socket, "/home/b"))
	if err := s.Release(ctx, "uid"); err != nil {
		t.Error(err)
	}
	checkHolders(t, s)
	for _, folder := range uppers {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", folder, err)
		}
	}
	if list, err := r.Ctr(ctx, "--namespace", Namespace, "snapshots", "list"); err != nil || strings.Contains(list, "muster/uid") || !strings.Contains(list, "Committed") {
		t.Errorf("containerd has %s, %v; want what was unpacked, and no root", list, err)
	}
	if err := s.Release(ctx, "uid"); err != nil {
		t.Errorf("releasing what holds nothing: %v", err)
	}
	// It is found unpacked by the next.
	if _, err := s.Fetch(ctx, Request{Holder: "next", Name: name}); err != nil {
		t.Error(err)
	}
}

func option(m Mount, name string) string {
	for _, o := range m.Options {
		if value, ok := strings.CutPrefix(o, name+"="); ok {
			return value
		}
	}
	return ""
}

func checkHolders(t *testing.T, s *Store, want ...string) {
	t.Helper()
	if got, err := s.Holders(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("held by %v, %v, want %v", got, err, want)
	}
}

func TestPull(t *testing.T) {
	ctx := t.Context()
	_, s := containerd(t)
	registry := cluster.NewRegistry()
	defer registry.Close()
	registry.User, registry.Password = "u", "p"
	push := func(content string) {
		if err := registry.Push("team/small:1", small("any", content)); err != nil {
			t.Fatal(err)
		}
	}
	push("first")
	name := registry.Host + "/team/small:1"
	let := []Credential{{Registry: "elsewhere.example", Username: "x"}, {Registry: "https://" + registry.Host, Username: "u", Password: "p"}}
	for _, c := range []struct {
		what string
		ask  Request
		says string
	}{
		{"no such image", Request{Name: registry.Host + "/team/none:1", Credentials: let}, "not found"},
		{"no credentials", Request{Name: name}, "401 Unauthorized"},
		{"wrong credentials", Request{Name: name, Credentials: []Credential{{Registry: registry.Host, Username: "u", Password: "q"}}}, "401 Unauthorized"},
		{"nobody there", Request{Name: "127.0.0.1:9/a:1"}, "connection refused"},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.ask.Holder = "uid"
			_, err := s.Fetch(ctx, c.ask)
			if err == nil || ReasonOf(err) != PullFailed || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.ask.Name) {
				t.Errorf("got %v, want that pulling %s says %q", err, c.ask.Name, c.says)
			}
		})
	}
	content := func(r Request) string {
		t.Helper()
		r.Holder, r.Name, r.Credentials = "uid", name, let
		got, err := s.Fetch(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		mounts, err := s.Root(ctx, "uid", "uid/a/0", got)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(option(mounts[0], "lowerdir"), "only/here"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	pulled := 0
	first := content(Request{Pulling: func() { pulled++ }})
	push("second")
	same := content(Request{Policy: PolicyIfNotPresent})
	next := content(Request{Policy: PolicyAlways})
	if first != "first" || same != "first" || next != "second" || pulled != 1 {
		t.Errorf("got %s, %s, %s (told %d times); want the first until it is pulled again", first, same, next, pulled)
	}
}

// What was pulled and is not used any more goes, and with it what it was
// unpacked to; what somebody imported stays.
func TestPulledImagesExpire(t *testing.T) {
	ctx := t.Context()
	r, s := containerd(t)
	begin := time.Now()
	now := begin
	s.now = func() time.Time { return now }
	registry := cluster.NewRegistry()
	defer registry.Close()
	const imported = "muster.test/small:1"
	if err := r.Import(ctx, Namespace, small(imported, "imported")); err != nil {
		t.Fatal(err)
	}
	names := []string{imported}
	for _, tag := range []string{"old:1", "named:1", "fetched:1"} {
		if err := registry.Push(tag, small("any", tag)); err != nil {
			t.Fatal(err)
		}
		names = append(names, registry.Host+"/"+tag)
	}
	fetch := func(name string) {
		t.Helper()
		if _, err := s.Fetch(ctx, Request{Holder: "uid", Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		fetch(name)
	}
	if err := s.Release(ctx, "uid"); err != nil {
		t.Fatal(err)
	}
	expire := func(named ...string) []string {
		t.Helper()
		removed, err := s.Expire(ctx, now.Add(-24*time.Hour), named)
		if err != nil {
			t.Fatal(err)
		}
		return removed
	}
	if removed := expire(); len(removed) > 0 {
		t.Errorf("removed at once: %v", removed)
	}
	now = begin.Add(20 * time.Hour)
	fetch(names[3])
	if err := s.Release(ctx, "uid"); err != nil {
		t.Fatal(err)
	}
	if removed := expire(names[2]); len(removed) > 0 {
		t.Errorf("removed early: %v", removed)
	}
	now = begin.Add(30 * time.Hour)
	if removed := expire(); !slices.Equal(removed, names[1:2]) {
		t.Errorf("removed %v, want %v", removed, names[1:2])
	}
	list, err := r.Ctr(ctx, "--namespace", Namespace, "snapshots", "list")
	if committed := strings.Count(list, "Committed"); err != nil || committed != 3 {
		t.Errorf("%d images are unpacked, want 3 (%v)\n%s", committed, err, list)
	}
	for _, name := range names {
		_, err := s.Fetch(ctx, Request{Holder: "uid", Name: name, Policy: PolicyNever})
		if gone := ReasonOf(err) == NeverPulled && err != nil; gone != (name == names[1]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Members of a gang ask at once: one pulls, the others find it here.
func TestPullOnce(t *testing.T) {
	_, s := containerd(t)
	registry := cluster.NewRegistry()
	defer registry.Close()
	if err := registry.Push("small:1", small("any", "x")); err != nil {
		t.Fatal(err)
	}
	const members = 8
	errs := make(chan error, members)
	for i := range members {
		go func() {
			_, err := s.Fetch(t.Context(), Request{Holder: string(rune('a' + i)), Name: registry.Host + "/small:1", Policy: PolicyIfNotPresent})
			errs <- err
		}()
	}
	for range members {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := registry.Pulls("small:1"); n == 0 || n > 2 { // its existence, then its content
		t.Errorf("the registry was asked %d times", n)
	}
	if len(s.turns) != 0 {
		t.Errorf("turns are remembered for ever: %v", s.turns)
	}
}

// A containerd that was killed is found again.
func TestContainerdComesBack(t *testing.T) {
	r, s := containerd(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const name = "muster.test/small:1"
	if err := r.Import(ctx, Namespace, small(name, "content")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Fetch(ctx, Request{Holder: "uid", Name: name}); err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if _, err := s.Check(ctx); err == nil || !strings.Contains(err.Error(), "there is no containerd at "+r.Socket) {
		t.Errorf("Check = %v, want what is missing", err)
	}
	if _, err := s.Fetch(ctx, Request{Holder: "uid", Name: name}); err == nil {
		t.Error("an image was fetched from nobody")
	}
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil {
		_, err := s.Fetch(ctx, Request{Holder: "uid", Name: name})
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			t.Error(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	checkHolders(t, s, "uid")
}
