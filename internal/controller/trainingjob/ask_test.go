package trainingjob

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestWhoIsGivenTheHook(t *testing.T) {
	own := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	after := &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	for _, c := range []struct {
		name      string
		container corev1.Container
		want      bool
	}{
		{"a shell", corev1.Container{Command: []string{"/bin/bash", "train.sh"}}, true},
		{"the image's entry point", corev1.Container{Args: []string{"train"}}, true},
		{"a program", corev1.Container{Command: []string{"python", "train.py"}}, false},
		{"a hook of its own", corev1.Container{Command: []string{"sh"}, Lifecycle: own}, false},
		{"another hook", corev1.Container{Command: []string{"sh"}, Lifecycle: after}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.container
			askTree(&got)
			has := got.Lifecycle != nil && got.Lifecycle.PreStop != nil && got.Lifecycle.PreStop.Exec != nil
			if has != c.want {
				t.Errorf("it has the hook: %t, want %t", has, c.want)
			}
			if c.container.Lifecycle == after && (got.Lifecycle.PostStart == nil || after.PreStop != nil) {
				t.Error("the other hook was changed")
			}
		})
	}
}

// TestHook runs the hook in a container's process namespace, with real processes, and checks their
// reports, in this order.
func TestHook(t *testing.T) {
	dir := t.TempDir()
	trainer := filepath.Join(dir, "train.py")
	write(t, trainer, `
import os, signal, subprocess, sys, time
asked = 0
def stop(number, frame):
    global asked
    asked += 1
signal.signal(signal.SIGTERM, stop)
for words in sys.argv[1:]:
    subprocess.Popen(words, shell=True)
open(sys.argv[0] + ".up", "w").close()
while not asked:
    time.sleep(0.01)
time.sleep(0.5)
print("saved after", asked, flush=True)
`)
	train := "python3 " + trainer
	for _, c := range []struct {
		name, first string
		want        []string
	}{
		{"a shell without exec", `sh -c '` + train + `; echo after'`, []string{"saved after 1", "hooked"}},
		{"many shells", `sh -c 'sh -c "sh -c \"` + train + `; :\"; :"; :'`, []string{"saved after 1", "hooked"}},
		{"a trap", `sh -c 'trap "echo trapped" TERM; ` + train + `; echo after'`, []string{"saved after 1", "trapped", "after", "hooked"}},
		{"a session", `setsid sh -c '` + train + `; :'`, []string{"saved after 1", "hooked"}},
		{"children of a program with a handler", train + ` "trap 'echo child; exit' TERM; while :; do sleep 0.05; done"`, []string{"saved after 1", "hooked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_ = os.Remove(trainer + ".up")
			first := filepath.Join(dir, "first.sh")
			write(t, filepath.Join(dir, "hook.sh"), hook)
			write(t, first, fmt.Sprintf("%s &\nwhile ! [ -e %s.up ]; do sleep 0.02; done\nsh %s/hook.sh\necho hooked\n", c.first, trainer, dir))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", first)
			command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("running it: %v\n%s", err, out)
			}
			if got := strings.Split(strings.TrimSpace(string(out)), "\n"); strings.Join(got, ", ") != strings.Join(c.want, ", ") {
				t.Errorf("it said %q, want %q", got, c.want)
			}
		})
	}
}

// TestHookWithoutRights: the hook does not wait for processes that it may not signal, such as those
// of another user: they do not know that they are to end.
func TestHookWithoutRights(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "hook.sh")
	write(t, script, "kill() { [ \"$1\" != -TERM ] && command kill \"$@\"; }\n"+hook)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child",
		"sh", "-c", "sleep 1000 & sh "+script+"; echo hooked")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stdout = &bytes.Buffer{}
	command.WaitDelay = time.Second // its child has the output open
	_ = command.Run()
	if got := fmt.Sprint(command.Stdout); got != "hooked\n" {
		t.Errorf("the hook waited: %q", got)
	}
}

// TestHookAmongOthers runs the hook where the first process of the container is not process 1: it
// returns at once, and SIGTERM ends the first process only when the trainer has saved.
func TestHookAmongOthers(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write(t, file("hook.sh"), hook)
	write(t, file("pause.py"), fmt.Sprintf(`
import signal, time
signal.signal(signal.SIGTERM, lambda number, frame: None)
open(%q, "w").close()
time.sleep(1000)
`, file("pause.up")))
	write(t, file("train.py"), fmt.Sprintf(`
import os, signal, time
def stop(number, frame):
    while not os.path.exists(%[1]q + "/go"):
        time.sleep(0.01)
    print("saved", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
open(%[1]q + "/up", "w").close()
time.sleep(1000)
`, dir))
	pause := begin(t, file("pause.log"), "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", "python3", file("pause.py"))
	appears(t, file("pause.up")) // before its handler is there, the hook takes it for the first process of the container
	inside := func(words ...string) []string {
		return append([]string{"nsenter", "--target", strconv.Itoa(child(t, pause)), "--user", "--preserve-credentials", "--pid", "--mount"}, words...)
	}
	// Its child is the first process of the container: a process that enters is not in the namespace itself.
	first := begin(t, file("first.log"), inside("--no-fork", "sh", "-c", fmt.Sprintf("sh -c 'python3 %s; :'; :", file("train.py")))...)
	appears(t, file("up"))
	root := child(t, first)
	// 1. The kubelet runs the hook, and then sends SIGTERM to the first process.
	words := inside("sh", file("hook.sh"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("the hook: %v\n%s", err, out)
	}
	if err := syscall.Kill(root, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// 2. The trainer saves, and the first process ends.
	write(t, file("go"), "")
	_ = first.Wait() // SIGTERM ends it
	if log, err := os.ReadFile(file("first.log")); err != nil || !strings.HasPrefix(string(log), "saved\n") {
		t.Errorf("the first process ended after %q (%v), want that the trainer saves before", log, err)
	}
}

// begin starts a program whose output goes to a file, and which ends with the test.
func begin(t *testing.T, log string, words ...string) *exec.Cmd {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Stdout, command.Stderr = out, out
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command
}

// child waits until a program has a child, and returns its process number.
func child(t *testing.T, of *exec.Cmd) (pid int) {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%[1]d/children", of.Process.Pid)
	until(t, path+" has a child", func() bool {
		text, _ := os.ReadFile(path)
		_, err := fmt.Sscan(string(text), &pid)
		return err == nil
	})
	return pid
}

// appears waits until there is a file.
func appears(t *testing.T, file string) {
	t.Helper()
	until(t, file+" is there", func() bool { _, err := os.Lstat(file); return err == nil })
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
