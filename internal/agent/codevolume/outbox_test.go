package codevolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/bundle"
)

// keeper keeps what it is brought, unless it fails.
type keeper struct {
	fails error
	kept  []string
}

func (k *keeper) Keep(_ context.Context, namespace, digest string, packed bundle.Packed, file string) error {
	if k.fails != nil {
		return k.fails
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() != packed.Size {
		return fmt.Errorf("a file of %d bytes: %w", packed.Size, err)
	}
	k.kept = append(k.kept, namespace+" "+digest[:10]+" "+packed.Python)
	return nil
}

// environments is a stage whose driver is that of environments.
func environments(t *testing.T) (*stage, *keeper) {
	t.Helper()
	s, k := newStage(t), &keeper{}
	var err error
	if s.server, err = New(Options{Node: "node-1", KubeletDir: s.dir, Fetcher: s.shelf, Keeper: k, Boot: s.boot}); err != nil {
		t.Fatal(err)
	}
	return s, k
}

func (s *stage) wants(pod, namespace, build string) *csi.NodePublishVolumeRequest {
	r := s.request(pod, namespace, "")
	delete(r.VolumeContext, attributeSnapshot)
	delete(r.VolumeContext, attributeCopy)
	r.VolumeContext[attributeKey], r.VolumeContext[attributeBuild] = strings.TrimPrefix(digest, "sha256:"), build
	return r
}

// note is what a build writes last.
const note = `{"python": "3.13.1", "searchPath": "/usr/bin"}`

// Members see one environment, fetched once, and cannot write to it.
func TestAnEnvironment(t *testing.T) {
	s, _ := environments(t)
	s.publish(s.wants("a0", "team", ""))
	s.publish(s.wants("b0", "team", ""))
	if got := s.reads("b0", "main.py"); got != "code of team" || s.shelf.times() != 1 {
		t.Errorf("it reads %q, fetched %d times", got, s.shelf.times())
	}
	if err := os.WriteFile(filepath.Join(s.target("a0"), "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing: %v", err)
	}
	if s.kept("checkouts") != 0 {
		t.Error("it was copied")
	}
	s.unpublish("a0")
	if s.reads("b0", "main.py") == "" {
		t.Error("the other does not see it any more")
	}
	s.unpublish("b0")
}

// What was built goes to the keeper once the pod has ended, also if the agent dies
// in between, and goes from the node then.
func TestABuild(t *testing.T) {
	s, k := environments(t)
	s.publish(s.wants("a0", "team", "true"))
	if err := os.WriteFile(filepath.Join(s.target("a0"), bundle.NoteFile), []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	s.publish(s.wants("a0", "team", "true")) // asked for again
	if s.server.depot.deliverAll(t.Context()) || len(k.kept) != 0 {
		t.Errorf("before its end: %v", k.kept)
	}
	s.unpublish("a0")
	k.fails = errors.New("nobody is at home")
	if !s.server.depot.deliverAll(t.Context()) {
		t.Error("nothing is left although it was not kept")
	}
	// Another agent, some time later.
	again, err := New(s.server.options)
	if err != nil {
		t.Fatal(err)
	}
	k.fails = nil
	if again.depot.deliverAll(t.Context()) || len(k.kept) != 1 || k.kept[0] != "team sha256:012 3.13.1" {
		t.Errorf("kept: %v", k.kept)
	}
	if again.depot.deliverAll(t.Context()); len(k.kept) != 1 {
		t.Errorf("kept again: %v", k.kept)
	}
	for _, kind := range []string{"builds", "outbox", "volumes"} {
		if n := s.kept(kind); n != 0 {
			t.Errorf("%d are left of %s", n, kind)
		}
	}
	if s.shelf.times() != 0 {
		t.Error("a build fetched something")
	}
}

func TestBuildsOfWhichNothingStays(t *testing.T) {
	for name, c := range map[string]struct {
		note  string
		fails error
	}{
		"it was not finished": {"", nil},
		"it is none":          {"{}", nil},
		"nobody wants it":     {note, fmt.Errorf("%w: the quota is used up", bundle.ErrUnwanted)},
	} {
		t.Run(name, func(t *testing.T) {
			s, k := environments(t)
			k.fails = c.fails
			s.publish(s.wants("a0", "team", "true"))
			if c.note != "" {
				if err := os.WriteFile(filepath.Join(s.target("a0"), bundle.NoteFile), []byte(c.note), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s.unpublish("a0")
			if s.server.depot.deliverAll(t.Context()) || len(k.kept) != 0 || s.kept("outbox") != 0 {
				t.Errorf("kept %v, and %d are left", k.kept, s.kept("outbox"))
			}
		})
	}
}

// Of a machine that was started again nothing is kept that was built before: it may
// not have been written whole. A build that is still there begins with nothing.
func TestABuildAfterABoot(t *testing.T) {
	s, k := environments(t)
	for _, pod := range []string{"a0", "b0", "c0"} {
		s.publish(s.wants(pod, "team", "true"))
		if err := os.WriteFile(filepath.Join(s.target(pod), bundle.NoteFile), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.unpublish("a0") // it was in the outbox
	for _, pod := range []string{"b0", "c0"} {
		if err := unix.Unmount(s.target(pod), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "pods", "b0")); err != nil {
		t.Fatal(err)
	}
	o := s.server.options
	o.Boot = "b002"
	var err error
	if s.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	if err := s.tidies(); err != nil {
		t.Fatal(err)
	}
	if s.server.depot.deliverAll(t.Context()) || len(k.kept) != 0 || s.kept("outbox") != 0 {
		t.Errorf("kept %v, and %d are left", k.kept, s.kept("outbox"))
	}
	s.publish(s.wants("c0", "team", "true"))
	if there := glob(s.target("c0"), "*"); len(there) != 0 {
		t.Errorf("it begins with %v", there)
	}
	s.unpublish("c0")
}

// A pod that went while no agent was there leaves what it built.
func TestABuildAfterACrash(t *testing.T) {
	s, k := environments(t)
	s.publish(s.wants("a0", "team", "true"))
	if err := os.WriteFile(filepath.Join(s.target("a0"), bundle.NoteFile), []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(s.target("a0"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "pods", "a0")); err != nil {
		t.Fatal(err)
	}
	if err := s.tidies(); err != nil {
		t.Fatal(err)
	}
	if s.server.depot.deliverAll(t.Context()) || len(k.kept) != 1 {
		t.Errorf("kept: %v", k.kept)
	}
}
