package snapshot

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// A pod that Muster binds has the event Scheduled, and one that waits FailedScheduling, as
// from kube-scheduler.
func TestEventsOfLonePods(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{}, testNode(1), testPod("a", "1"))
	heard := events.NewFakeRecorder(16)
	run(t, api, func(o *Options) { o.Events = heard })
	next := func(want string) {
		t.Helper()
		select {
		case got := <-heard.Events:
			if !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event within 10 s, want %q", want)
		}
	}
	next("Normal Scheduled Successfully assigned vision/a to here")
	if err := api.Create(t.Context(), testPod("b", "1")); err != nil {
		t.Fatal(err)
	}
	next("Warning FailedScheduling needs 1 GPU")
}

// A pod with several containers that ask for GPUs gets a reason, where only one may: also beside
// nodes without GPUs, and with init containers and sidecars.
func TestSeveralContainersAsk(t *testing.T) {
	gpu := corev1.ResourceRequirements{Limits: testPod("x", "1").Spec.Containers[0].Resources.Limits}
	always := corev1.ContainerRestartPolicyAlways
	for name, edit := range map[string]func(*corev1.PodSpec){
		"containers": func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "d", Resources: gpu})
		},
		"init container": func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "d", Resources: gpu}} },
		"sidecar": func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "d", Resources: gpu, RestartPolicy: &always}}
		},
	} {
		for _, bare := range []bool{false, true} {
			c := newCluster(t, 1)
			c.show(namedSlice("s", "n0", inventory.Driver, "A100", true, "u0", "u1"))
			node := testNode(0)
			node.Name, node.Annotations, node.Labels = "n0", nil, map[string]string{v1alpha1.LabelOwned: "true"}
			c.show(node)
			if bare {
				other := testNode(0)
				other.Name = "bare"
				c.show(other)
			}
			p := testPod("two", "1")
			edit(&p.Spec)
			c.show(p)
			now := time.Unix(1_700_000_000, 0)
			c.loop.tell(t.Context(), now)
			if result := c.loop.core.Decide(conversion.Instant(now)); len(result.Plans) != 0 {
				t.Fatalf("%s: planned", name)
			}
			text := c.loop.core.Reasons(conversion.Instant(now), "")[0].Reason.Render(Clock(now, time.UTC))
			if !strings.Contains(text, "ask for GPUs, and one container of a pod may") || !strings.Contains(text, "main") || !strings.Contains(text, "d") {
				t.Errorf("%s: it says %q", name, text)
			}
		}
	}
}
