package node

import (
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
)

// sleepIn starts a process in the network namespace at path, which ends with
// the test or by the function.
func sleepIn(t *testing.T, path string) (end func()) {
	t.Helper()
	in := rig.NewPipe(t)
	command := exec.Command("nsenter", "--net="+path, "/bin/sh", "-c", in.Say("in")+"; exec sleep 600")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { _ = command.Process.Kill(); _ = command.Wait() }
	t.Cleanup(end)
	in.Hear()
	return end
}

func seconds(n int64) *int64 { return &n }

// TestActiveDeadline: a pod whose time is up has its grace, then fails.
func TestActiveDeadline(t *testing.T) {
	eachTier(t, nil, func(t *testing.T, w *world) {
		asked := rig.NewPipe(t)
		w.create(newPod("obeys", `trap '`+asked.Say("asked")+`; exit 0' TERM; while :; do sleep 600 & wait; done`).with(func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds = seconds(1)
		}))
		w.create(newPod("deaf", `trap '' TERM; while :; do sleep 600; done`).with(func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = seconds(1), seconds(1)
		}))
		if word := asked.Hear(); word != "asked" {
			t.Errorf("the process was %q", word)
		}
		for name, code := range map[string]int32{"obeys": 0, "deaf": 137} {
			pod := w.await(name, "end", ended)
			state := pod.Status.ContainerStatuses[0].State.Terminated
			if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != reasonDeadline || state == nil || state.ExitCode != code {
				t.Errorf("%s: got %s %s %+v, want exit code %d", name, pod.Status.Phase, pod.Status.Reason, state, code)
			}
			// The start is written in whole seconds.
			late := state.FinishedAt.Sub(pod.Status.StartTime.Time)
			if most := time.Duration(3+int(code)/137) * time.Second; late > most {
				t.Errorf("%s ended %v after its start", name, late)
			}
		}
	})
}

// TestSidecar: it is up before the main container starts, is started again
// when it fails, and ends after the main container has.
func TestSidecar(t *testing.T) {
	eachTier(t, nil, func(t *testing.T, w *world) {
		up, stopped, fails, again, ends := rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t)
		always := corev1.ContainerRestartPolicyAlways
		w.create(newPod("served", `test -f "$MUSTER_ROOT/up" && `+ends.Await()+` && touch "$MUSTER_ROOT/over"`).with(func(p *corev1.Pod) {
			side := container("side", `
				if test -f "$MUSTER_ROOT/up"; then
					trap 'test -f "$MUSTER_ROOT/over" && `+stopped.Say("after")+` || `+stopped.Say("before")+`; exit 0' TERM
					`+again.Say("again")+`
					while :; do sleep 600 & wait; done
				fi
				touch "$MUSTER_ROOT/up"; `+up.Say("up")+`; `+fails.Await()+`; exit 9`)
			side.RestartPolicy = &always
			side.StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 30, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", `test -f "$MUSTER_ROOT/up"`}}}}
			p.Spec.InitContainers = []corev1.Container{side}
		}))
		up.Hear()
		w.await("served", "run", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil
		})
		fails.Open()
		again.Hear()
		pod := w.await("served", "have its sidecar again", func(p *corev1.Pod) bool {
			side := p.Status.InitContainerStatuses[0]
			return side.RestartCount == 1 && side.State.Running != nil
		})
		if main := pod.Status.ContainerStatuses[0]; main.State.Running == nil || main.RestartCount != 0 {
			t.Errorf("the sidecar's failure touched the main container: %+v", main)
		}
		ends.Open()
		if order := stopped.Hear(); order != "after" {
			t.Errorf("the sidecar was asked to end %s the main container had", order)
		}
		pod = w.await("served", "end", ended)
		side := pod.Status.InitContainerStatuses[0]
		if pod.Status.Phase != corev1.PodSucceeded || side.State.Terminated == nil || side.State.Terminated.ExitCode != 0 ||
			side.LastTerminationState.Terminated == nil || side.LastTerminationState.Terminated.ExitCode != 9 {
			t.Errorf("got %s %+v", pod.Status.Phase, side)
		}
	})
}

// TestShellWithoutExec: a trainer below a shell has its grace to save its work,
// although the shell dies at once.
func TestShellWithoutExec(t *testing.T) {
	eachTier(t, nil, func(t *testing.T, w *world) {
		says := rig.NewPipe(t)
		trainer := `trap "sleep 0.5; ` + says.Say("saved") + `; exit 0" TERM; ` + says.Say("up") + `; while :; do sleep 0.05; done`
		w.create(newPod("shell", `sh -c '`+trainer+`'; echo "the trainer ended with $?"`))
		if word := says.Hear(); word != "up" {
			t.Errorf("the trainer said %q", word)
		}
		w.terminate("shell", 20)
		if word := says.Hear(); word != "saved" {
			t.Errorf("the trainer said %q", word)
		}
		w.awaitRemoved("shell")
	})
}

// TestMemoryLimit: a container beyond its memory limit is killed for that, in both tiers.
func TestMemoryLimit(t *testing.T) {
	if able, reason := process.LimitsAvailable(); !able {
		t.Skipf("no control groups can be made: %s", reason)
	}
	eachTier(t, nil, func(t *testing.T, w *world) {
		// tail keeps input without a line end in memory.
		w.create(newPod("eats", `exec tail /dev/zero`).with(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
		}))
		pod := w.await("eats", "end", ended)
		last := pod.Status.ContainerStatuses[0].State.Terminated
		if last == nil || last.Reason != reasonOOMKilled || last.ExitCode != 137 {
			t.Errorf("got %+v", pod.Status.ContainerStatuses)
		}
	})
}
