//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestBackup does what docs/backup.md says, word for word: copies a home while its
// jobs go on, loses the machine, and restores the copy into another home. Everything that was acknowledged when the copy was made is there:
// the job that was done is, the one that ran is started again and goes on from its
// checkpoint, the one that waited waits; and no GPU is given twice.
func TestBackup(t *testing.T) {
	m := configured(t)
	ns, ctx := "default", deadline(t, 8*time.Minute)
	book, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept.tar")
	dir := folder(t, map[string]string{"train.sh": `n=$(cat "$MUSTER_CHECKPOINT_DIR/step" 2>/dev/null || echo 0); n=$((n+1)); echo $n > "$MUSTER_CHECKPOINT_DIR/step"
echo "from $n" >> "$1/$MUSTER_JOB"; until [ -e "$1/$MUSTER_JOB.go" ]; do sleep 0.2; done`})
	expect(t, m.Run(ctx, "queue", "create", "vision", "--guaranteed", "gpu=4"), 0)
	start := func(m *harness.Muster, name string, gpus string) {
		t.Helper()
		expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", name, "--queue", "vision", "--gpus", gpus, "--resumable", "--detach", "--", "sh", "train.sh", book), 0)
	}
	release := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(book, name+".go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrote := func(name, want string) {
		t.Helper()
		harness.Eventually(t, 3*time.Minute, "waiting until "+name+" has begun", func() error {
			if text, _ := os.ReadFile(filepath.Join(book, name)); strings.TrimSpace(string(text)) != want {
				return fmt.Errorf("it wrote %q, want %q", text, want)
			}
			return nil
		})
	}
	release("done")
	start(m, "done", "1")
	was := waitPhase(t, m, ns, "done", v1alpha1.JobSucceeded)
	start(m, "runs", "2")
	waitPhase(t, m, ns, "runs", v1alpha1.JobRunning)
	wrote("runs", "from 1")
	start(m, "waits", "4")
	waitPhase(t, m, ns, "waits", v1alpha1.JobWaiting)
	// 1. The copy: training does not notice.
	backup(t, m, kept)
	if runs := waitPhase(t, m, ns, "runs", v1alpha1.JobRunning); runs.Status.Restarts != 0 {
		t.Errorf("a backup restarted what ran %d times", runs.Status.Restarts)
	}
	wrote("runs", "from 1")
	// 2. What comes later is not in it; then the machine is lost.
	start(m, "later", "1")
	waitPhase(t, m, ns, "later", v1alpha1.JobRunning)
	m.Abandon()
	harness.Eventually(t, time.Minute, "losing the disk", func() error { return os.RemoveAll(m.Home) })
	// 3. The copy, in another home.
	home := filepath.Join(t.TempDir(), "home")
	command(t, "restore", kept, home)
	again := up(t, home)
	// 4. What was acknowledged is there, and the rest is not.
	if is := waitPhase(t, again, ns, "done", v1alpha1.JobSucceeded); !is.Status.FinishTime.Equal(was.Status.FinishTime) || is.UID != was.UID {
		t.Errorf("the job that was done ended at %s, and now at %s", was.Status.FinishTime, is.Status.FinishTime)
	}
	expect(t, again.Run(ctx, "queue", "list"), 0, "vision")
	if r := again.Run(ctx, "-n", ns, "get"); strings.Contains(r.Stdout, "later") {
		t.Errorf("what came after the backup is there: %s", r.Stdout)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(again.Run(context.WithoutCancel(ctx), "-n", ns, "describe", "runs").Stdout)
		}
	})
	// 5. And all goes on. What ran has no processes here, and names GPUs that are not
	// here: it is in its queue again, beside the one that waited.
	harness.Eventually(t, 2*time.Minute, "waiting until one of the two runs", func() error {
		for _, name := range []string{"runs", "waits"} {
			if job(t, again, ns, name).Status.Phase == v1alpha1.JobRunning {
				return nil
			}
		}
		return errors.New("none does")
	})
	noDeviceTwice(t, again)
	release("runs")
	release("waits")
	runs := waitPhase(t, again, ns, "runs", v1alpha1.JobSucceeded)
	waitPhase(t, again, ns, "waits", v1alpha1.JobSucceeded)
	wrote("runs", "from 1\nfrom 2") // it went on from what the first had saved
	wrote("waits", "from 1")
	if runs.Status.Restarts != 0 {
		t.Errorf("the restoration counts as %d failures", runs.Status.Restarts)
	}
	expect(t, again.Run(ctx, "-n", ns, "delete", "--all"), 0)
}

// TestRestoreInPlace goes back to a copy while jobs run: what ran when it was made
// goes on, what ended since is told as ended, and what nobody knows any more keeps
// its GPUs, which are given to nobody, until it has ended.
func TestRestoreInPlace(t *testing.T) {
	m := configured(t)
	ns, ctx, kept := "default", deadline(t, 5*time.Minute), filepath.Join(t.TempDir(), "kept.tar")
	go1, go2 := filepath.Join(t.TempDir(), "go"), filepath.Join(t.TempDir(), "go")
	until := func(file string) []string {
		return []string{"--gpus", "1", "--", "sh", "-c", "until [ -e " + file + " ]; do sleep 0.2; done"}
	}
	submit(t, m, ns, "runs", until(go1)...)
	submit(t, m, ns, "ends", until(go2)...)
	waitPhase(t, m, ns, "runs", v1alpha1.JobRunning)
	waitPhase(t, m, ns, "ends", v1alpha1.JobRunning)
	backup(t, m, kept)
	if err := os.WriteFile(go2, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "ends", v1alpha1.JobSucceeded)
	seconds := mark()
	submit(t, m, ns, "later", "--gpus", "2", "--", "sleep", seconds)
	waitPhase(t, m, ns, "later", v1alpha1.JobRunning)
	before := running(m, go1)
	command(t, "restore in place", kept, m.Home)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "ends", v1alpha1.JobSucceeded)
	if j, after := waitPhase(t, m, ns, "runs", v1alpha1.JobRunning), running(m, go1); j.Status.Restarts != 0 || len(before) == 0 || len(after) != len(before) || after[0].PID != before[0].PID {
		t.Errorf("what ran was restarted %d times: %v, now %v", j.Status.Restarts, before, after)
	}
	// Of 4 GPUs one is with the job that runs, and two are with what nobody knows.
	if len(running(m, seconds)) == 0 {
		t.Fatal("what came after the backup was ended")
	}
	submit(t, m, ns, "wants", "--gpus", "3", "--", "true")
	waitPhase(t, m, ns, "wants", v1alpha1.JobWaiting)
	noDeviceTwice(t, m)
	for _, p := range running(m, seconds) {
		_ = p.Kill()
	}
	waitPhase(t, m, ns, "wants", v1alpha1.JobSucceeded)
	if err := os.WriteFile(go1, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "runs", v1alpha1.JobSucceeded)
}

// configured starts a Muster whose settings are in its home.
func configured(t *testing.T) *harness.Muster {
	t.Helper()
	home := t.TempDir()
	text := "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\ntier: plain\nsimulateGPUs: 4xA100\n"
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return up(t, home)
}

// up starts the Muster of a home, which ends with the test.
func up(t *testing.T, home string) *harness.Muster {
	t.Helper()
	m, err := harness.Up(deadline(t, 2*time.Minute), home)
	t.Cleanup(m.Abandon)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// backup copies the data folder of m, which starts again.
func backup(t *testing.T, m *harness.Muster, to string) {
	t.Helper()
	command(t, "backup", m.Home, to)
	if err := m.Connect(); err != nil {
		t.Fatal(err)
	}
}

// command does what docs/backup.md says under a heading, with other folders.
func command(t *testing.T, heading, from, to string) {
	t.Helper()
	documented(t, "backup.md", heading, "FROM="+from, "TO="+to, "KUBECONFIG=")
}

// documented does what a page of the documentation says under a heading.
func documented(t *testing.T, page, heading string, env ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- " + heading + " -->\n+```\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("docs/%s says nothing on %q", page, heading)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", string(block[1]))
	tools := filepath.Dir(harness.Binary()) + ":" + filepath.Dir(harness.KubectlBinary())
	cmd.Env = append(append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH")), env...)
	if r := harness.Finish(cmd); r.Code != 0 {
		t.Fatalf("%s: %s%s", heading, r.Stdout, r.Stderr)
	}
}
