//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"slices"
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

// TestWhoWaitsAsksForNodes has a gang of five wait where there are four GPUs. Where
// an autoscaler is asked, five pods stand for it as an autoscaler looks for them,
// nobody binds them, they hold nothing, and they are gone with the wait. Elsewhere
// there are none.
func TestWhoWaitsAsksForNodes(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "five", 5, 1, "")
	the.until(t, ns, "five", v1alpha1.JobWaiting)
	if !the.asks {
		the.says(t, ns, "five", "GPU")
		if n := len(the.placeholders(t)); n != 0 {
			t.Errorf("%d pods ask for nodes, and nobody is there to be asked", n)
		}
		return
	}
	the.says(t, ns, "five", "asked for nodes for its 5 members")
	for _, pod := range the.standing(t, 5) {
		if pod.Spec.Containers[0].Resources.Limits.Name(v1alpha1.ResourceGPU, "").Value() != 1 || pod.Spec.SchedulerName != v1alpha1.SchedulerName {
			t.Errorf("%s asks for %v, of %s", pod.Name, pod.Spec.Containers[0].Resources, pod.Spec.SchedulerName)
		}
	}
	if r := the.muster(t, "-n", ns, "why", "five"); r.Code != 0 || !strings.Contains(r.Stdout, "asked for nodes for its 5 members") {
		t.Errorf("muster why: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	// They hold nothing, and nobody runs them where there is room.
	the.holding(t, ns, "four", 4, 1, "")
	the.until(t, ns, "four", v1alpha1.JobRunning)
	for _, pod := range the.standing(t, 5) {
		if pod.Spec.NodeName != "" {
			t.Errorf("%s was bound to %s", pod.Name, pod.Spec.NodeName)
		}
	}
	if r := the.muster(t, "-n", ns, "delete", "five"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.standing(t, 0)
	// What waits for others asks as well, and asks no more once it is placed.
	the.holding(t, ns, "next", 2, 1, "")
	the.standing(t, 2)
	the.release(t, ns, "four", "worker", 0, 1, 2, 3)
	the.until(t, ns, "next", v1alpha1.JobRunning)
	the.standing(t, 0)
}

// placeholders are the pods that ask for nodes.
func (p *platform) placeholders(t testing.TB) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := p.api.List(t.Context(), &pods, client.HasLabels{v1alpha1.LabelPlaceholder}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// standing waits until so many pods ask for nodes, as an autoscaler looks for
// them: pending, and by their own word unschedulable.
func (p *platform) standing(t testing.TB, n int) (pods []corev1.Pod) {
	t.Helper()
	harness.Eventually(t, within, fmt.Sprintf("waiting until %d pods ask for nodes", n), func() error {
		if pods = p.placeholders(t); len(pods) != n {
			return fmt.Errorf("%d pods ask for nodes", len(pods))
		}
		for _, pod := range pods {
			told := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
			})
			if !told || pod.Status.Phase != corev1.PodPending {
				return fmt.Errorf("%s is %s: %+v", pod.Name, pod.Status.Phase, pod.Status.Conditions)
			}
		}
		return nil
	})
	return pods
}

// TestANodeThatVanishes cuts the power of a gang's node, after another node did not answer
// for a while. The gang keeps its GPUs while its members on the node may still run. Once
// the node is gone for good, the whole gang ends. Muster frees its GPUs only after its
// last pod is gone.
func TestANodeThatVanishes(t *testing.T) {
	if the.another == nil {
		t.Fatal("there is one machine, whose node takes Muster along: leave this test out here, by name, as the Makefile does")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := the.another(ctx)
	if err != nil {
		t.Fatalf("starting another: %v", err)
	}
	t.Cleanup(func() {
		if err := p.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const ns = metav1.NamespaceDefault
	p.silence(t, ns)
	pods := p.four(t, ns, "torn")
	p.holding(t, ns, "next", 1, 1, "")
	gone := pods[0].Spec.NodeName
	if err := p.vanish(gone); err != nil {
		t.Fatalf("pulling the plug of %s: %v", gone, err)
	}
	p.until(t, ns, "next", v1alpha1.JobWaiting)
	if r := p.kubectl(t, "", "delete", "node", gone, "--wait=false"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	harness.Eventually(t, 3*time.Minute, "waiting until the gang has ended", func() error {
		held := p.placements(t, ns)
		left := 0
		for _, pod := range p.pods(t, ns, "torn") {
			if pod.Spec.NodeName == gone {
				left++
			}
		}
		// Read in this order, a pod that is left was there when that was counted.
		if left > 0 && held == 0 {
			t.Fatalf("%d members may run on %s, and nothing is held", left, gone)
		}
		if job := p.job(t, ns, "torn"); left > 0 || job.Status.Phase != v1alpha1.JobWaiting {
			return fmt.Errorf("%d pods are left on %s; the job is %s: %s", left, gone, job.Status.Phase, job.Status.Message)
		}
		return nil
	})
	p.leaves(t, ns, "torn", pods, "its node "+gone+" is gone")
	next := p.until(t, ns, "next", v1alpha1.JobRunning)
	if live := p.pods(t, ns, "next"); len(live) != 1 || live[0].Spec.NodeName == gone {
		t.Errorf("%s runs %d members", next.Name, len(live))
	}
}

// TestAVolumeTiesToNodes has a claim whose volume can be used on one node alone,
// and that node is not there: the gang waits and says so. Where there are several
// nodes, it goes where its volume is.
func TestAVolumeTiesToNodes(t *testing.T) {
	ns := the.namespace(t)
	volume := func(name, node string) {
		t.Helper()
		text := fmt.Sprintf(`[{apiVersion: v1, kind: PersistentVolume, metadata: {name: %[1]s}, spec: {
  capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: /tmp}, claimRef: {namespace: %[4]s, name: %[2]s},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%[3]s]}]}]}}}},
 {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: %[4]s, name: %[2]s}, spec: {
  accessModes: [ReadWriteMany], storageClassName: "", volumeName: %[1]s, resources: {requests: {storage: 1Gi}}}}]`, name+"-"+ns, name, node, ns)
		if r := the.kubectl(t, "apiVersion: v1\nkind: List\nitems: "+text, "apply", "-f", "-"); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		t.Cleanup(func() { the.kubectl(t, "", "delete", "pv", name+"-"+ns, "--wait=false") })
		harness.Eventually(t, within, "waiting until the claim is bound", func() error {
			var claim corev1.PersistentVolumeClaim
			if err := the.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &claim); err != nil {
				return err
			}
			if claim.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("it is %s", claim.Status.Phase)
			}
			return nil
		})
	}
	volume("far", "nowhere")
	the.holding(t, ns, "tied", 1, 1, ", volumes: [{name: data, claim: far, mountPath: /data}]")
	the.says(t, ns, "tied", "cannot use the volume of claim far, which is tied to other nodes")
	if r := the.muster(t, "-n", ns, "why", "tied"); r.Code != 0 || !strings.Contains(r.Stdout, "claim far") {
		t.Errorf("muster why: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if the.another == nil {
		return // its one node mounts no folder of its own at an absolute path
	}
	for _, node := range []string{"node-2", "node-1"} {
		name := "on-" + node
		volume(name, node)
		the.holding(t, ns, name, 1, 1, fmt.Sprintf(", volumes: [{name: data, claim: %s, mountPath: /data}]", name))
		the.until(t, ns, name, v1alpha1.JobRunning)
		if pods := the.pods(t, ns, name); len(pods) != 1 || pods[0].Spec.NodeName != node {
			t.Errorf("%s runs on %s", name, pods[0].Spec.NodeName)
		}
	}
}
