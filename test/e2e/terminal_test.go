//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// onTerminal starts muster on a terminal of 24 rows and 100 columns.
func onTerminal(t *testing.T, m *harness.Muster, args ...string) *harness.Terminal {
	t.Helper()
	return harness.OnTerminal(t, m.Command(deadline(t, 90*time.Second), args...), 24, 100)
}

// TestShellOnATerminal types into a member: what is typed runs there, the
// window's size follows, ^C is for the program there, and at the end the
// terminal is as it was.
func TestShellOnATerminal(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, seconds := m.Namespace(t), mark()
		submit(t, m, ns, "open", "--", "sleep", mark())
		waitPhase(t, m, ns, "open", v1alpha1.JobRunning)
		x := onTerminal(t, m, "-n", ns, "shell", "open/worker-0")
		before := x.Modes()
		x.Expect("# ")
		if cmp.Equal(before, x.Modes()) {
			t.Error("the terminal is not in raw mode: keys are handled here")
		}
		x.Type("echo $ROLE-$INDEX $TERM $((6*7)); test -t 0 && stty size\r")
		x.Expect("worker-0 xterm-256color 42\r\n24 100\r\n")
		x.Resize(40, 132)
		harness.Eventually(t, 20*time.Second, "waiting until the new size is there", func() error {
			x.Type("stty size | tr ' ' x\r")
			if shown := x.Expect("\r\n"); strings.Contains(shown, "40x132") {
				return nil
			}
			if strings.Contains(x.Output(), "\n40x132\r") {
				return nil
			}
			return fmt.Errorf("it is not")
		})
		x.Type("sleep " + seconds + "\r")
		harness.Eventually(t, 20*time.Second, "waiting for the program", func() error {
			if len(running(m, "sleep "+seconds)) == 0 {
				return fmt.Errorf("it does not run")
			}
			return nil
		})
		x.Type("\x03")
		waitGone(t, m, 10*time.Second, "sleep "+seconds)
		x.Type("echo after $((40+3))\r")
		x.Expect("after 43\r\n")
		x.Type("exit 7\r")
		if code := x.Wait(); code != 7 {
			t.Errorf("exit code %d, want 7", code)
		}
		if diff := cmp.Diff(before, x.Modes()); diff != "" {
			t.Errorf("the terminal's modes (-before +after):\n%s", diff)
		}
		expect(t, m.Run(deadline(t, 30*time.Second), "-n", ns, "delete", "open"), 0)
	})
}

// TestShellThatLosesItsMember gives the terminal back when the job is deleted
// under it.
func TestShellThatLosesItsMember(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	submit(t, m, ns, "open", "--", "sleep", mark())
	waitPhase(t, m, ns, "open", v1alpha1.JobRunning)
	x := onTerminal(t, m, "-n", ns, "shell", "open")
	before := x.Modes()
	x.Expect("# ")
	expect(t, m.Run(deadline(t, 60*time.Second), "-n", ns, "delete", "open"), 0)
	if code := x.Wait(); code == 0 {
		t.Error("exit code 0, want another")
	}
	if diff := cmp.Diff(before, x.Modes()); diff != "" {
		t.Errorf("the terminal's modes (-before +after):\n%s", diff)
	}
}

// TestTopOnATerminal redraws in place, follows the window's size, and gives
// the cursor back at ^C.
func TestTopOnATerminal(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	const hide, show, home = "\x1b[?25l", "\x1b[?25h", "\x1b[H"
	x := onTerminal(t, m, "top", "-w")
	before := x.Modes()
	x.Expect(hide)
	x.Expect(home)
	x.Expect("free")
	submit(t, m, ns, "seen", "--gpus", "H100:1", "--", "sleep", mark())
	waitPhase(t, m, ns, "seen", v1alpha1.JobRunning)
	x.Expect(ns + "/seen worker-0")
	x.Expect(home)
	x.Resize(5, 30)
	x.Expect("more lines")
	x.Expect(home)
	if shown := x.Expect("more lines"); strings.Count(shown, "\n") > 4 {
		t.Errorf("a page for 5 rows has more: %q", shown)
	}
	x.Type("\x03")
	if code := x.Wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	x.Expect(show)
	if text := x.Output(); strings.Count(text, hide) != 1 || strings.Count(text, show) != 1 || !strings.HasSuffix(text, show) {
		t.Errorf("the cursor is not hidden once and shown at the end: %q", text)
	}
	if diff := cmp.Diff(before, x.Modes()); diff != "" {
		t.Errorf("the terminal's modes (-before +after):\n%s", diff)
	}
	expect(t, m.Run(deadline(t, 30*time.Second), "-n", ns, "delete", "seen"), 0)
}

// TestGetOnATerminal adds a row a change, in the columns of the rows before,
// and ends at ^C.
func TestGetOnATerminal(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	submit(t, m, ns, "a-name-that-is-long", "--", "sleep", mark())
	waitPhase(t, m, ns, "a-name-that-is-long", v1alpha1.JobRunning)
	x := onTerminal(t, m, "-n", ns, "get", "-w")
	before := x.Modes()
	x.Expect("NAME")
	x.Expect("a-name-that-is-long   ")
	submit(t, m, ns, "b", "--", "true")
	x.Expect("\nb                     ")
	x.Expect("Succeeded")
	x.Expect("\n")
	x.Type("\x03")
	if code := x.Wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	x.Expect("^C\r\n")
	if text := x.Output(); strings.Count(text, "NAME") != 1 || strings.Contains(text, "\x1b[?25l") || strings.Count(text, "Succeeded") != 1 {
		t.Errorf("want one line of column names, a row a change, and the cursor left alone: %q", text)
	}
	if diff := cmp.Diff(before, x.Modes()); diff != "" {
		t.Errorf("the terminal's modes (-before +after):\n%s", diff)
	}
	expect(t, m.Run(deadline(t, 30*time.Second), "-n", ns, "delete", "a-name-that-is-long"), 0)
}

// hideGPUs makes this a machine without GPUs for what the test starts: the
// driver's library, and its program, are found first where they do not work.
func hideGPUs(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"libnvidia-ml.so.1": strings.Repeat("this is no library\n", 100),
		"nvidia-smi":        "#!/bin/sh\necho 'No devices were found' >&2\nexit 6\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", dir+":"+os.Getenv("LD_LIBRARY_PATH"))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestRunWithoutAnyGPU says at once why nothing happens and which ways out
// there are, on a terminal and elsewhere; ^C deletes the job.
func TestRunWithoutAnyGPU(t *testing.T) {
	hideGPUs(t)
	m := own(t, "--tier", "plain")
	if gpus := m.Run(deadline(t, 30*time.Second), "top", "-o", "json"); strings.Contains(gpus.Stdout, `"uuid"`) {
		t.Fatalf("this machine's GPUs are not hidden:\n%s", gpus.Stdout)
	}
	x := onTerminal(t, m, "run", "--name", "wants", "--code", "none", "--gpus", "1", "--", "true")
	x.Expect("accepted")
	start := time.Now()
	for _, words := range []string{"No GPU:", "this machine has none", "without --gpus", "--simulate-gpus 8xA100"} {
		x.Expect(words)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it was said after %s, want at once", took)
	}
	x.Expect("Waiting")
	x.Type("\x03")
	if code := x.Wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	expect(t, m.Run(deadline(t, 30*time.Second), "get", "wants"), 3)
	ctx := deadline(t, 30*time.Second)
	expect(t, m.Run(ctx, "run", "--name", "wants", "--code", "none", "--gpus", "1", "--detach", "--", "true"), 0, "No GPU:", "--simulate-gpus")
	expect(t, m.Run(ctx, "why", "wants"), 0, "this machine has no GPU")
	expect(t, m.Run(ctx, "delete", "wants"), 0)
}
