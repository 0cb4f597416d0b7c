package trainingjob

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
			command := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", first)
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

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
