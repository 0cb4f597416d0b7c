//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// four runs a gang on all GPUs there are, and returns its pods.
func (p *platform) four(t testing.TB, ns, name string) []corev1.Pod {
	t.Helper()
	p.holding(t, ns, name, 4, 1, "")
	p.until(t, ns, name, v1alpha1.JobRunning)
	pods := p.pods(t, ns, name)
	if len(pods) != 4 {
		t.Fatalf("%d members run, want 4", len(pods))
	}
	return pods
}

// evict asks for one pod to go, as a drain does.
func (p *platform) evict(t testing.TB, pod *corev1.Pod) error {
	t.Helper()
	return p.core.PolicyV1().Evictions(pod.Namespace).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
}

// leaves waits until none of these pods runs any more and the job waits, and
// asserts that it counts as no failure, for a reason with these words.
func (p *platform) leaves(t testing.TB, ns, name string, pods []corev1.Pod, why string) {
	t.Helper()
	before := map[types.UID]bool{}
	for _, pod := range pods {
		before[pod.UID] = true
	}
	harness.Eventually(t, within, "waiting until the whole gang is gone", func() error {
		for _, pod := range p.pods(t, ns, name) {
			if before[pod.UID] {
				return fmt.Errorf("%s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
	p.until(t, ns, name, v1alpha1.JobWaiting)
	var gang v1alpha1.Gang
	if err := p.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &gang); err != nil {
		t.Fatal(err)
	}
	if s := gang.Status; !strings.Contains(s.EvictedFrom, why) || s.Restarts != 0 || s.Evictions != 0 {
		t.Errorf("it left because %q, with %d restarts and %d evictions; want %q, and none", s.EvictedFrom, s.Restarts, s.Evictions, why)
	}
}

// again waits until the gang runs once more, wholly.
func (p *platform) again(t testing.TB, ns, name string) {
	t.Helper()
	if job := p.until(t, ns, name, v1alpha1.JobRunning); job.Status.Restarts != 0 {
		t.Errorf("a node that left counts as %d restarts", job.Status.Restarts)
	}
	if pods := p.pods(t, ns, name); len(pods) != 4 {
		t.Errorf("%d members run again, want 4", len(pods))
	}
}

// uncordoned lets a node take work again at the end of a test, whatever it did.
func (p *platform) uncordoned(t testing.TB, node string) {
	t.Cleanup(func() {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		err := p.api.Patch(context.Background(), n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`)))
		if err != nil {
			t.Errorf("uncordoning %s: %v", node, err)
		}
	})
}

// TestADrainTakesTheWholeGang has one member's eviction refused while its node is
// like any, and then drains the node with kubectl: nothing is torn, the whole
// gang goes back to its queue, and runs again when there is room.
func TestADrainTakesTheWholeGang(t *testing.T) {
	ns := the.namespace(t)
	pods := the.four(t, ns, "torn")
	if err := the.evict(t, &pods[0]); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("evicting one member of four: %v, want that its budget refuses it", err)
	}
	if live := the.pods(t, ns, "torn"); len(live) != 4 || live[0].DeletionTimestamp != nil {
		t.Fatalf("%d members run after a refused eviction", len(live))
	}
	node := pods[0].Spec.NodeName
	the.uncordoned(t, node)
	if r := the.kubectl(t, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=50s"); r.Code != 0 {
		t.Fatalf("kubectl drain: %s%s", r.Stdout, r.Stderr)
	}
	the.leaves(t, ns, "torn", pods, "its node "+node+" put")
	the.says(t, ns, "torn", "GPU")
	if r := the.kubectl(t, "", "uncordon", node); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.again(t, ns, "torn")
	for _, pod := range the.pods(t, ns, "torn") {
		if err := the.evict(t, &pod); !apierrors.IsTooManyRequests(err) {
			t.Errorf("evicting %s after the node takes work again: %v", pod.Name, err)
		}
	}
}

// TestACordonLeavesWhatRuns cordons a node: its gang goes on, and nothing new
// comes there.
func TestACordonLeavesWhatRuns(t *testing.T) {
	ns := the.namespace(t)
	pods := the.four(t, ns, "stays")
	node := pods[0].Spec.NodeName
	the.uncordoned(t, node)
	if r := the.kubectl(t, "", "cordon", node); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	// The guard goes down: from then on an eviction would pass.
	harness.Eventually(t, within, "waiting until members there may be evicted", func() error {
		for _, pod := range the.pods(t, ns, "stays") {
			if guarded := pod.Labels[v1alpha1.LabelGuarded] != ""; guarded != (pod.Spec.NodeName != node) {
				return fmt.Errorf("%s on %s: guarded is %v", pod.Name, pod.Spec.NodeName, guarded)
			}
		}
		return nil
	})
	for i, pod := range the.pods(t, ns, "stays") {
		if pod.UID != pods[i].UID || pod.DeletionTimestamp != nil {
			t.Errorf("%s was touched by a cordon", pod.Name)
		}
	}
	the.holding(t, ns, "next", 4, 1, "")
	the.release(t, ns, "stays", "worker", 0, 1, 2, 3)
	the.until(t, ns, "stays", v1alpha1.JobSucceeded)
	the.until(t, ns, "next", v1alpha1.JobWaiting)
}

// TestMusterDrains orders the drain with Muster's own command, and takes it back.
func TestMusterDrains(t *testing.T) {
	ns := the.namespace(t)
	pods := the.four(t, ns, "moved")
	node := pods[0].Spec.NodeName
	t.Cleanup(func() { the.muster(t, "node", "drain", "--undo", node) })
	r := the.muster(t, "node", "drain", node, "--notice", "5s", "--timeout", "50s")
	if r.Code != 0 || !strings.Contains(r.Stdout, "node "+node+" drained") || !strings.Contains(r.Stderr, ns+"/moved (worker-") {
		t.Fatalf("muster node drain: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	the.leaves(t, ns, "moved", pods, "its node "+node+" is being drained")
	if r := the.muster(t, "node", "drain", "--undo", node); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.again(t, ns, "moved")
}

// TestAReclaimedMachine marks a node as a cloud does that takes a spot machine
// back: its gang leaves at once.
func TestAReclaimedMachine(t *testing.T) {
	const taint = "cloud.google.com/impending-node-termination"
	ns := the.namespace(t)
	pods := the.four(t, ns, "spot")
	node := pods[0].Spec.NodeName
	untaint := func() { the.kubectl(t, "", "taint", "node", node, taint+"-") }
	t.Cleanup(untaint)
	began := time.Now()
	if r := the.kubectl(t, "", "taint", "node", node, taint+"=:NoSchedule"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.leaves(t, ns, "spot", pods, "is being reclaimed")
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("it took %s to leave, longer than the machine is there", took)
	}
	untaint()
	the.again(t, ns, "spot")
}
