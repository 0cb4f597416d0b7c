package node

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/lifecycle"
	"github.com/muster-dev/muster/internal/node/limits"
)

// withoutLimits is a node that cannot keep limits.
func withoutLimits(c *Config) { c.Limits = limits.Of(false, "control groups are read-only") }

// limitsMemory is a pod with a limit that a node without control groups cannot honour.
func limitsMemory(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
}

// waitsFor is a pod that is Pending, with a container that waits for a reason.
func waitsFor(reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		if p.Status.Phase != corev1.PodPending || len(p.Status.ContainerStatuses) == 0 {
			return false
		}
		waiting := p.Status.ContainerStatuses[0].State.Waiting
		return waiting != nil && waiting.Reason == reason
	}
}

// TestRefusedPodStaysPending: a pod of a ReplicaSet shows the reason why it does not start, and
// starts once it is changed.
func TestRefusedPodStaysPending(t *testing.T) {
	w := newWorld(t, withoutLimits)
	w.create(newPod("limited", "exit 0").with(limitsMemory).ownedBy("apps/v1", "ReplicaSet"))
	pod := w.await("limited", "say why it does not start", waitsFor(v1alpha1.ReasonUnsupported))
	if why := pod.Status.ContainerStatuses[0].State.Waiting.Message; !strings.HasPrefix(why, "spec.containers[0].resources.limits.memory: ") {
		t.Errorf("it waits for %q", why)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.ContainersReady, corev1.PodReady} {
		if c := condition(pod, kind); c == nil || c.Status != corev1.ConditionFalse {
			t.Errorf("condition %s: %+v, want False", kind, c)
		}
	}
	w.awaitEvent(pod, v1alpha1.ReasonUnsupported)
	// The next node tries it again.
	w.stop()
	w.start()
	pod = w.await("limited", "wait still", waitsFor(v1alpha1.ReasonUnsupported))
	pod.Spec.Containers[0].Resources.Limits = nil
	if _, err := w.client.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if pod := w.await("limited", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("it ended %s: %s %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	}
}

// awaitEvent waits for a warning about a pod.
func (w *world) awaitEvent(pod *corev1.Pod, reason string) {
	w.t.Helper()
	events := w.client.CoreV1().Events(pod.Namespace)
	watcher, err := events.Watch(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Stop()
	for deadline := time.After(20 * time.Second); ; {
		list, err := events.List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.InvolvedObject.UID == pod.UID && e.Type == corev1.EventTypeWarning {
				return
			}
		}
		select {
		case <-watcher.ResultChan():
		case <-deadline:
			w.t.Fatalf("waited 20 s for an event %s of pod %s", reason, pod.Name)
		}
	}
}

// TestRefusedPodIsDeleted: nothing of it is left, and its status shows that.
func TestRefusedPodIsDeleted(t *testing.T) {
	w := newWorld(t, withoutLimits)
	w.create(newPod("limited", "exit 0").with(limitsMemory))
	w.await("limited", "say why it does not start", waitsFor(v1alpha1.ReasonUnsupported))
	w.terminate("limited", 30)
	w.awaitGone("limited")
	w.awaitRemoved("limited")
}

// TestRefusedPodStartsOnceThereIsRoom: a GPU that another pod holds is taken
// soon after that pod has ended.
func TestRefusedPodStartsOnceThereIsRoom(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.GPUs = simulated(t, "1xA100") })
	uuid := w.inventoryOf().GPUs[0].UUID
	script, _, end := holdsGPUs(t)
	w.create(newPod("has", script).with(withGPUs(uuid)))
	w.await("has", "run", inPhase(corev1.PodRunning))
	w.create(newPod("wants", "exit 0").with(withGPUs(uuid)).ownedBy("apps/v1", "ReplicaSet"))
	pod := w.await("wants", "wait for the GPU", waitsFor(v1alpha1.ReasonRefused))
	if why := pod.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(why, "default/has") {
		t.Errorf("it waits for %q", why)
	}
	began := time.Now()
	end.Open()
	if pod := w.await("wants", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("it ended %s: %s", pod.Status.Phase, pod.Status.Message)
	}
	if took := time.Since(began); took > lifecycle.FirstBackOff/2 {
		t.Errorf("it ran %v after the GPU was free: the node waited for its next look", took)
	}
}

// TestRefusedForALock: a process outside Muster holds the lock of the GPU.
func TestRefusedForALock(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.GPUs = simulated(t, "1xA100") })
	uuid := w.inventoryOf().GPUs[0].UUID
	lock, err := os.OpenFile(gpu.LockPath(uuid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	w.create(newPod("wants", "exit 0").with(withGPUs(uuid)).ownedBy("apps/v1", "ReplicaSet"))
	pod := w.await("wants", "say that the GPU is taken", waitsFor(v1alpha1.ReasonRefused))
	w.awaitEvent(pod, v1alpha1.ReasonRefused)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if pod := w.await("wants", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("it ended %s: %s", pod.Status.Phase, pod.Status.Message)
	}
}

// TestRefusedPodsThatFail: the owner of the pod decides, and not its labels.
func TestRefusedPodsThatFail(t *testing.T) {
	for _, c := range []struct {
		name      string
		pod       *podBuilder
		elsewhere bool
		waited    time.Duration
		fails     bool
	}{
		{"a member of a gang", newPod("p", "").member(), false, 0, true},
		{"another group's gang", newPod("p", "").ownedBy("example.com/v1", "Gang"), false, time.Hour, false},
		{"a replica with the labels of a member", newPod("p", "").ownedBy("apps/v1", "ReplicaSet").with(func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelGang], p.Annotations[v1alpha1.AnnotationPlacement] = "g", "g-1 uid"
		}), false, time.Hour, false},
		{"a replica that waits for its GPUs", newPod("p", "").ownedBy("apps/v1", "ReplicaSet"), true, elsewhereAfter - 1, false},
		{"a replica whose GPUs do not come", newPod("p", "").ownedBy("apps/v1", "ReplicaSet"), true, elsewhereAfter, true},
		{"a pod of its own whose GPUs do not come", newPod("p", ""), true, time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &worker{pod: &c.pod.pod}
			if got := w.mustFail(c.elsewhere, c.waited); got != c.fails {
				t.Errorf("mustFail = %t, want %t", got, c.fails)
			}
		})
	}
}

// TestLookPause: tries become rare, and never stop.
func TestLookPause(t *testing.T) {
	for times, want := range map[int][2]time.Duration{
		1: {10 * time.Second, 10 * time.Second}, 2: {20 * time.Second, 20 * time.Second},
		4: {80 * time.Second, time.Minute}, 1000: {5 * time.Minute, time.Minute},
	} {
		if got := [2]time.Duration{lookPause(times, false), lookPause(times, true)}; got != want {
			t.Errorf("after %d refusals: %v, want %v", times, got, want)
		}
	}
}
