package foreman_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman/worker"
	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// mounting gives a command mounts of its own, for every user of the test.
func mounting(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = one(os.Geteuid()), one(os.Getegid())
	}
}

// TestFreshFolders: each datum finds empty temporary folders, whatever the program of the one before
// left in them, and none of its processes.
func TestFreshFolders(t *testing.T) {
	for name, leave := range map[string]string{
		"files":                        `echo x > $T/all; mkdir -p $T/a/b; echo x > $V/all`,
		"links that lead out":          `ln -s $OUTSIDE $T/out; ln -s $OUTSIDE/kept $V/kept; ln $OUTSIDE/kept $T/hard`,
		"folders without rights":       `mkdir -p $T/a/b; touch $T/a/b/c; chmod 0 $T/a/b; chmod 555 $T/a`,
		"a process of another session": `setsid sh -c 'touch $T/up; while :; do echo x >> $T/late; sleep 0.001; done' & until [ -e $T/up ]; do sleep 0.01; done`,
		"an orphan that starts others": `(setsid sh -c 'touch $T/up; trap "" TERM; while :; do (sleep 0.01; echo x >> $T/late) & sleep 0.001; done' &); until [ -e $T/up ]; do sleep 0.01; done`,
		"mounts":                       `mkdir $T/m $T/bound; mount -t tmpfs x $T/m; touch $T/m/f; mount --bind $OUTSIDE $T/bound; mount -t tmpfs y $V; touch $V/g`,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			top := t.TempDir()
			folder := func(name string) string {
				dir := filepath.Join(top, name)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				return dir
			}
			first, second, outside := folder("t"), folder("v"), folder("outside")
			for _, file := range []string{outside + "/kept", first + "/of the image"} {
				if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w := s.work(shell(`ls -A $T $V > $MUSTER_OUTPUT/made; ls -A $T/* >> $MUSTER_OUTPUT/made; `+leave), "a", "b", "c")
			cmd := dedicated(s.Folder("run.stage"))
			cmd.Env = append(cmd.Env, "T="+first, "V="+second, "OUTSIDE="+outside, envTemporary+"="+first+":"+second)
			mounting(cmd)
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			s.over(w)
			seen := fmt.Sprintf("%s:\nof the image\n\n%s:\n%s/of the image\n", first, second, first)
			if diff := cmp.Diff(map[string]string{"a": seen, "b": seen, "c": seen}, s.recorded); diff != "" {
				t.Error(diff)
			}
			for _, file := range []string{outside + "/kept", first + "/of the image"} {
				if text, err := os.ReadFile(file); err != nil || string(text) != "kept" {
					t.Errorf("%s has %q, %v", file, text, err)
				}
			}
		})
	}
}

// TestFreshFoldersAreOrTheWorkerEnds: a worker whose folders cannot be emptied ends, and loses no
// datum.
func TestFreshFoldersAreOrTheWorkerEnds(t *testing.T) {
	s := open(t)
	dir := filepath.Join(t.TempDir(), "t")
	w := s.work(shell(`rm -rf $T; echo x > $T; echo $MUSTER_DATUM > $MUSTER_OUTPUT/made`), "a", "b")
	for _, want := range []string{"a", "ab"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := dedicated(s.Folder("run.stage"))
		var said bytes.Buffer
		cmd.Env, cmd.Stderr = append(cmd.Env, "T="+dir, envTemporary+"="+dir), &said
		if err := cmd.Run(); err == nil || !strings.Contains(said.String(), "emptying "+dir+" for the next datum") {
			t.Errorf("%v: %s", err, said.String())
		}
		s.await(want, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.recorded) == len(want)
		})
	}
	s.over(w)
	if diff := cmp.Diff(map[string]string{"a": "a\n", "b": "b\n"}, s.recorded); diff != "" {
		t.Error(diff)
	}
}

// TestTemporary: without the node's variable a worker empties no folder of the machine.
func TestTemporary(t *testing.T) {
	for value, want := range map[string][]string{"": {}, "/tmp:/dev/shm": {"/tmp", "/dev/shm"}} {
		t.Setenv(contract.TemporaryVariable, value)
		if diff := cmp.Diff(want, worker.Temporary("")); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
	}
	if err := os.Unsetenv(contract.TemporaryVariable); err != nil {
		t.Fatal(err)
	}
	for _, post := range []string{"", "/muster/foreman"} {
		if got := worker.Temporary(post); got != nil {
			t.Errorf("on a machine with the post %q it may empty %q", post, got)
		}
	}
}
