package node

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/rig"
)

// simulated opens pretend GPUs of the test's own.
func simulated(t *testing.T, what string) gpu.Source {
	t.Helper()
	source, err := gpu.Open(t.Context(), gpu.Options{Simulate: what, Scope: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

// inventoryOf reads what the Node object says.
func (w *world) inventoryOf() v1alpha1.NodeInventory {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var i v1alpha1.NodeInventory
	if err := json.Unmarshal([]byte(node.Annotations[v1alpha1.AnnotationInventory]), &i); err != nil {
		w.t.Fatal(err)
	}
	return i
}

func withGPUs(uuids ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationGPUs] = strings.Join(uuids, ",")
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{v1alpha1.ResourceGPU: *resource.NewQuantity(int64(len(uuids)), resource.DecimalSI)}
	}
}

// holdsGPUs is a script that tells its GPUs and runs until its end is opened.
func holdsGPUs(t *testing.T) (script string, gpus, end *rig.Pipe) {
	gpus, end = rig.NewPipe(t), rig.NewPipe(t)
	return gpus.Say(`"$MUSTER_GPUS"`) + "; " + end.Await(), gpus, end
}

func TestGPUsAreHeldOnce(t *testing.T) {
	source := simulated(t, "2xA100")
	w := newWorld(t, func(c *Config) { c.GPUs = source })
	devices := w.inventoryOf().GPUs
	if len(devices) != 2 || devices[0].Model != "A100" || w.inventoryOf().HostPorts == nil {
		t.Fatalf("got %+v", w.inventoryOf())
	}
	node, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if q := node.Status.Allocatable[v1alpha1.ResourceGPU]; q.Value() != 2 {
		t.Errorf("allocatable GPUs: %v", q.Value())
	}
	script, gpus, end := holdsGPUs(t)
	w.create(newPod("has", script).with(withGPUs(devices[0].UUID)))
	w.await("has", "run", inPhase(corev1.PodRunning))
	if got := gpus.Hear(); got == "" {
		t.Error("the pod sees no GPU")
	}
	w.create(newPod("wants", "exit 0").with(withGPUs(devices[0].UUID)).member())
	if pod := w.await("wants", "end", ended); pod.Status.Reason != "Refused" || !strings.Contains(pod.Status.Message, "default/has") {
		t.Errorf("got %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	end.Open()
	pod := w.await("has", "end", ended)
	var use v1alpha1.PodUsage
	if err := json.Unmarshal([]byte(condition(pod, v1alpha1.ConditionPodUsage).Message), &use); err != nil || use.GPUSeconds <= 0 {
		t.Errorf("got %+v, %v", use, err)
	}
	// Free the moment the first has ended.
	w.create(newPod("next", "exit 0").with(withGPUs(devices[0].UUID)))
	if pod := w.await("next", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got %+v", pod.Status)
	}
}

func TestQuarantine(t *testing.T) {
	source := simulated(t, "1xA100")
	w := newWorld(t, func(c *Config) { c.GPUs = source })
	uuid := w.inventoryOf().GPUs[0].UUID
	script, _, end := holdsGPUs(t)
	w.create(newPod("stray", script).with(withGPUs(uuid)))
	w.await("stray", "run", inPhase(corev1.PodRunning))
	w.stop()
	// Another database: the pod is unknown, and the cluster is another one.
	namespaces := w.client.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), metav1.NamespaceSystem, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "another"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "stray", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.until("the quarantine to be shown", func() bool { return len(w.inventoryOf().Quarantined) == 1 })
	if i := w.inventoryOf(); !strings.Contains(i.Quarantined[0], "default/stray") || i.GPUs[0].Unhealthy == "" {
		t.Errorf("got %+v", i)
	}
	w.create(newPod("wants", "exit 0").with(withGPUs(uuid)).member())
	if pod := w.await("wants", "end", ended); pod.Status.Reason != "Refused" {
		t.Errorf("got %+v", pod.Status)
	}
	end.Open()
	w.until("the quarantine to end", func() bool { return len(w.inventoryOf().Quarantined) == 0 })
}

// uses shows one process on every GPU.
type uses struct {
	gpu.Source
	pid *atomic.Int64
}

func (u uses) Sample(ctx context.Context) ([]gpu.Sample, error) {
	samples, err := u.Source.Sample(ctx)
	for i := range samples {
		if pid := u.pid.Load(); pid != 0 {
			samples[i].Processes = []gpu.Process{{PID: int(pid)}}
		}
	}
	return samples, err
}

// TestOwnAfterARestart has a node that starts again know as its own what its
// pods run on GPUs, from the first look on.
func TestOwnAfterARestart(t *testing.T) {
	var pid atomic.Int64
	source := uses{simulated(t, "1xA100"), &pid}
	w := newWorld(t, func(c *Config) { c.GPUs = source })
	number, other, end, last := rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t), rig.NewPipe(t)
	w.create(newPod("has", number.Say("$$$$")+"; "+end.Await()).with(withGPUs(w.inventoryOf().GPUs[0].UUID)))
	w.await("has", "run", inPhase(corev1.PodRunning))
	own, err := strconv.ParseInt(strings.TrimSpace(number.Hear()), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	pid.Store(own)
	w.start()
	if got := w.inventoryOf().GPUs[0].Foreign; len(got) != 0 {
		t.Errorf("its own process is somebody else's: %+v", got)
	}
	// A process of a pod that was given another GPU, or none, is not its holder.
	w.create(newPod("has-none", other.Say("$$$$")+"; "+last.Await()))
	stranger, err := strconv.ParseInt(strings.TrimSpace(other.Hear()), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w.await("has-none", "run", inPhase(corev1.PodRunning))
	w.stop()
	pid.Store(stranger)
	w.start()
	if got := w.inventoryOf().GPUs[0].Foreign; len(got) != 1 || got[0].PID != int(stranger) || !strings.Contains(got[0].Command, "pod default/has-none, which was not given this GPU") {
		t.Errorf("the process of another pod is shown as %+v", got)
	}
	w.stop()
	pid.Store(int64(os.Getpid()))
	w.start()
	if got := w.inventoryOf().GPUs[0].Foreign; len(got) != 1 || got[0].PID != os.Getpid() {
		t.Errorf("this test's process is %+v, want somebody else's", got)
	}
	end.Open()
	w.await("has", "end", ended)
	last.Open()
	w.await("has-none", "end", ended)
}
