//go:build embedded

package manager_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// On nodes that are not owned no GPU is given out, and who waits is told what to
// do; once the node is added, it starts.
func TestNodesThatAreNotOwned(t *testing.T) {
	s := newStage(t)
	s.Node("theirs", 4, false)
	s.Node("cpu", 0, false)
	s.run("one")
	s.Gang("train", 1, "2")
	s.awaitGang("train", "a reason that says what to do", func(g *v1alpha1.Gang) bool {
		return strings.Contains(g.Status.Message, "4 A100 of node theirs") && strings.Contains(g.Status.Message, "muster node add theirs")
	})
	if pods := s.Pods("train"); len(pods) != 0 {
		t.Fatalf("%d pods were made", len(pods))
	}
	n := &corev1.Node{}
	if err := s.api.Get(t.Context(), key("theirs"), n); err != nil {
		t.Fatal(err)
	}
	n.Labels[v1alpha1.LabelOwned] = "true"
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintOwned, Effect: corev1.TaintEffectNoSchedule})
	if err := s.api.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if p := s.awaitPods("train", 1)[0]; p.Spec.NodeName != "theirs" {
		t.Errorf("it is on %s", p.Spec.NodeName)
	}
}

// What a kubelet refuses goes back as a whole and is planned elsewhere.
func TestKubeletThatRefuses(t *testing.T) {
	s := newStage(t)
	s.Node("a", 2, true)
	s.Node("b", 2, true)
	s.Node("c", 2, true)
	s.run("one")
	s.Gang("train", 2, "2")
	first := s.awaitPods("train", 2)
	bad := first[0].DeepCopy()
	s.say(bad, corev1.PodFailed, "OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 1, capacity: 2")
	s.awaitGang("train", "the attempt is over, with the reason", func(g *v1alpha1.Gang) bool {
		return g.Status.Refusals == 1 && strings.Contains(g.Status.Message, "OutOfnvidia.com/gpu: Node didn't have") &&
			len(g.Status.Avoided) == 1 && g.Status.Avoided[0].Node == bad.Spec.NodeName
	})
	// No kubelet is there to end the other member.
	for i := range first {
		if first[i].Name != bad.Name {
			s.letGo(&first[i])
		}
	}
	s.awaitGang("train", "a second attempt", func(g *v1alpha1.Gang) bool { return g.Status.Attempt == 2 && g.Status.Phase == v1alpha1.GangStarting })
	for _, p := range s.awaitPods("train", 2) {
		if p.Spec.NodeName == bad.Spec.NodeName {
			t.Errorf("%s is on the node that refused it", p.Name)
		}
	}
}

// A member that does not start in time sends the gang back, with the node's
// words.
func TestMemberThatDoesNotStart(t *testing.T) {
	s := newStage(t)
	s.Node("a", 2, true)
	s.run("one")
	s.Gang("train", 1, "1", func(g *v1alpha1.Gang) { g.Spec.StartTimeout = &metav1.Duration{Duration: 5 * time.Second} })
	p := s.awaitPods("train", 1)[0].DeepCopy()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, Name: "slow"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Type:           corev1.EventTypeWarning, Reason: "FailedMount", Message: "unable to attach or mount volumes: data", LastTimestamp: metav1.Now(),
	}
	if err := s.api.Create(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	s.awaitGang("train", "it is given back with the node's words", func(g *v1alpha1.Gang) bool {
		return g.Status.StartTimeouts == 1 && g.Status.Message == "it did not start on node a within 5s: FailedMount: unable to attach or mount volumes: data"
	})
}
