package codevolume

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/agent/inline"
)

// reboot starts the machine again: nothing is mounted, and what is on the disk
// may be anything.
func (s *stage) reboot() {
	s.t.Helper()
	mounts, _ := filepath.Glob(filepath.Join(s.dir, "pods", "*", "mount")) // the pattern is well formed
	for _, m := range mounts {
		if err := unix.Unmount(m, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "train.py" {
			err = os.Truncate(path, 0)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.boot = "b002"
	s.restart()
}

// After the machine was started again nothing is used that may not have been
// written whole: the pods that are still there have it anew.
func TestAfterABoot(t *testing.T) {
	s := newStage(t)
	s.publish(s.request("a0", "team", "job-a"))
	s.reboot()
	s.publish(s.request("a0", "team", "job-a")) // the same pod
	s.publish(s.request("b0", "team", "job-b"))
	for _, pod := range []string{"a0", "b0"} {
		if got := s.reads(pod, "main.py"); got != "code of team" {
			t.Errorf("%s reads %q", pod, got)
		}
	}
	if n := s.shelf.times(); n != 2 {
		t.Errorf("fetched %d times", n)
	}
	if err := s.tidies(); err != nil {
		t.Fatal(err)
	}
	if left := glob(s.server.folder(), "trees", "*", "*"); len(left) != 1 || !strings.HasSuffix(left[0], s.boot) {
		t.Errorf("the trees are %v", left)
	}
	s.unpublish("a0")
	s.unpublish("b0")
}

// What an agent of another version mounted stays as long as it is mounted: its
// trees bear no boot in their names, and checkouts were of jobs.
func TestWhatEarlierAgentsMade(t *testing.T) {
	s := newStage(t)
	v := volume{Namespace: "team", Digest: digest, Owner: "job-a", Target: s.target("a0")}
	for _, path := range []string{s.server.depot.tree(v), s.server.depot.checkout(v), filepath.Join(s.server.folder(), "checkouts", "team.job-b.0123")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	record := `{"namespace":"team","digest":"` + digest + `","owner":"job-a","target":"` + v.Target + `"}`
	if err := os.WriteFile(s.server.depot.record("csi-a0"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	left := func() string {
		if err := s.tidies(); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(len(glob(s.server.folder(), "trees", "*", "*")), s.kept("checkouts"))
	}
	if got := left(); got != "1 1" {
		t.Errorf("while it is mounted there are %s trees and checkouts", got)
	}
	s.unpublish("a0")
	if got := left(); got != "0 0" {
		t.Errorf("then there are %s trees and checkouts", got)
	}
}

// What is fetched when the driver ends is given up, and the driver waits for that.
func TestNothingIsFetchedAfterTheEnd(t *testing.T) {
	s := newStage(t)
	s.shelf.slow, s.shelf.begun = make(chan struct{}), make(chan struct{})
	if err := os.Mkdir(filepath.Join(s.dir, "plugins_registry"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.server.Run(ctx) }()
	asked, request := make(chan error, 1), s.request("a0", "team", "job-a")
	go func() {
		_, err := s.server.NodePublishVolume(t.Context(), request)
		asked <- err
	}()
	<-s.shelf.begun
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := s.shelf.ended.Load(); n != 1 {
		t.Errorf("%d fetches have ended", n)
	}
	if err := <-asked; !strings.Contains(fmt.Sprint(err), "context canceled") {
		t.Errorf("who asked hears %v", err)
	}
	if _, err := s.server.NodePublishVolume(t.Context(), s.request("b0", "team", "job-b")); !strings.Contains(fmt.Sprint(err), inline.ErrEnded.Error()) {
		t.Errorf("who asks then hears %v", err)
	}
}
