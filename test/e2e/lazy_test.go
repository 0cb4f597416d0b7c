//go:build e2e && fuse

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// mountsBelow are the mounts in a home.
func mountsBelow(t *testing.T, home string) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, " fuse.muster ") && strings.Contains(line, " "+filepath.Join(home, "mounts")+"/") {
			found = append(found, strings.Fields(line)[4])
		}
	}
	return found
}

// untilUnmounted waits until a home has no mounts any more.
func untilUnmounted(t *testing.T, home string) {
	t.Helper()
	harness.Eventually(t, 60*time.Second, "waiting until nothing is mounted", func() error {
		if left := mountsBelow(t, home); len(left) > 0 {
			return fmt.Errorf("mounted are %q", left)
		}
		return nil
	})
}

// TestLazyData: a job reads from a mount what was not fetched, in both tiers; the
// mount goes with the job.
func TestLazyData(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 180*time.Second)
		code := folder(t, map[string]string{"read.py": reader})
		expect(t, m.Run(ctx, "-n", ns, "data", "create", "lazy"), 0)
		expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, map[string]string{"train/a": "one", "train/b": "two", "test/c": "three"}), "lazy"), 0)
		before := tell(t, filepath.Join(m.Home, "fetched"))
		r := m.RunIn(ctx, code, "-n", ns, "run", "--code", code, "--checkpoints", "none", "--name", "lazy", "--lazy", "--data", "lazy:/train", "--",
			"python3", "read.py", "MUSTER_DATA_LAZY", "write")
		expect(t, r, 0, "has a one", "has b two", "refused: Read-only file system")
		if strings.Contains(r.Stdout, "three") {
			t.Errorf("it has more than was asked for: %s", r.Stdout)
		}
		if now := tell(t, filepath.Join(m.Home, "fetched")); now != before {
			t.Errorf("%d folders were fetched", now-before)
		}
		var job v1alpha1.TrainingJob
		got := m.Kubectl(ctx, "", "-n", ns, "get", "trainingjob", "lazy", "-o", "json")
		expect(t, got, 0)
		if err := json.Unmarshal([]byte(got.Stdout), &job); err != nil {
			t.Fatal(err)
		}
		if len(job.Status.Data) != 1 || !job.Status.Data[0].Lazy || job.Status.Data[0].Files != 2 {
			t.Errorf("%+v", job.Status.Data)
		}
		expect(t, m.Run(ctx, "-n", ns, "describe", "lazy"), 0, "read as they are asked for")
		expect(t, m.Run(ctx, "-n", ns, "delete", "lazy"), 0)
		untilUnmounted(t, m.Home)
	})
}

// patient reads a file of the mount, waits for a file beside the script, and reads
// another one.
const patient = `import os, time
root = os.environ["MUSTER_DATA_LAZY"]
print("has", open(os.path.join(root, "a")).read(), flush=True)
while not os.path.exists(os.environ["GO_ON"]):
    time.sleep(0.05)
print("and has", open(os.path.join(root, "b")).read(), flush=True)
`

// TestLazyDataAfterKill9: Muster is killed while a job reads from a mount; the job
// reads on, and the next Muster takes the mount away once it is done.
func TestLazyDataAfterKill9(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 180*time.Second)
	code, signs := folder(t, map[string]string{"read.py": patient}), t.TempDir()
	goOn := filepath.Join(signs, "go-on")
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "lazy"), 0)
	expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, map[string]string{"a": "one", "b": "two"}), "lazy"), 0)
	expect(t, m.RunIn(ctx, code, "-n", ns, "run", "--detach", "--name", "lazy", "--code", code, "--lazy", "--data", "lazy", "-e", "GO_ON="+goOn, "--", "python3", "read.py"), 0)
	waitPhase(t, m, ns, "lazy", v1alpha1.JobRunning)
	m.Kill9(t)
	if n := len(mountsBelow(t, m.Home)); n != 1 {
		t.Errorf("%d mounts", n)
	}
	if err := os.WriteFile(goOn, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "lazy", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "-n", ns, "logs", "lazy"), 0, "has one", "and has two")
	expect(t, m.Run(ctx, "-n", ns, "delete", "lazy"), 0)
	untilUnmounted(t, m.Home)
}

// TestLazyVerb: what `muster data mount` shows is there until it is interrupted, or
// unmounted from outside.
func TestLazyVerb(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 60*time.Second)
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "shown"), 0)
	expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, map[string]string{"train/a": "one"}), "shown"), 0)
	full := folder(t, map[string]string{"mine": "x"})
	expect(t, m.Run(ctx, "-n", ns, "data", "mount", "shown", full), 2, "has something in it, which a mount would hide")
	expect(t, m.Run(ctx, "-n", ns, "data", "mount", "shown:/*", full), 2, "a mount shows a folder or a file")
	expect(t, m.Run(ctx, "-n", ns, "data", "mount", "shown:/no", filepath.Join(t.TempDir(), "x")), 3, "there is no such file or folder")
	point := filepath.Join(t.TempDir(), "point")
	for _, tt := range []struct {
		name string
		end  func(*exec.Cmd) error
		well bool
	}{
		{"^C", func(c *exec.Cmd) error { return c.Process.Signal(os.Interrupt) }, true},
		{"umount", func(*exec.Cmd) error { return syscall.Unmount(point, 0) }, true},
		{"kill -9", func(c *exec.Cmd) error { return c.Process.Kill() }, false},
		{"^C of the next one", func(c *exec.Cmd) error { return c.Process.Signal(os.Interrupt) }, true},
	} {
		c := exec.CommandContext(ctx, harness.Binary(), "--home", m.Home, "-n", ns, "data", "mount", "shown:/train", point)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		said, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.Contains(said, "is at "+point+": 1 file") {
			t.Fatalf("%s: %q %v", tt.name, said, err)
		}
		if got, err := os.ReadFile(filepath.Join(point, "a")); string(got) != "one" || err != nil {
			t.Errorf("%s: %q %v", tt.name, got, err)
		}
		if err := tt.end(c); err != nil {
			t.Fatal(tt.name, err)
		}
		if err := c.Wait(); (err == nil) != tt.well {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if left, err := os.ReadDir(point); err != nil || len(left) > 0 {
		t.Errorf("something is left: %v %v", left, err)
	}
}
