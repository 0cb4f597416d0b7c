package departure_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/departure"
)

func node(cordoned bool, order *time.Duration, conditions []corev1.NodeCondition, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}
	n.Spec.Unschedulable, n.Spec.Taints, n.Status.Conditions = cordoned, taints, conditions
	if order != nil {
		departure.Order(n, *order)
	}
	return n
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func TestSignsOfANode(t *testing.T) {
	after := func(d time.Duration) *time.Duration { return &d }
	scheduled := func(reason string, status corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: "VMEventScheduled", Status: status, Reason: reason}}
	}
	for name, c := range map[string]struct {
		node *corev1.Node
		want *departure.Departure
	}{
		"a node like any":           {node(false, nil, nil), nil},
		"a cordon alone":            {node(true, nil, nil, taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), nil},
		"an order":                  {node(true, after(0), nil), &departure.Departure{Why: "is being drained (muster node drain)"}},
		"an order with notice":      {node(true, after(2*time.Minute), nil), &departure.Departure{Why: "is being drained (muster node drain)", Notice: 2 * time.Minute}},
		"an autoscaler":             {node(false, nil, nil, taint("ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)), &departure.Departure{Why: "is being drained: it has the taint ToBeDeletedByClusterAutoscaler"}},
		"a candidate of one":        {node(false, nil, nil, taint("DeletionCandidateOfClusterAutoscaler", corev1.TaintEffectPreferNoSchedule)), nil},
		"a taint that only prefers": {node(false, nil, nil, taint("karpenter.sh/disrupted", corev1.TaintEffectPreferNoSchedule)), nil},
		"a reclaimed spot VM": {node(false, nil, nil, taint("cloud.google.com/impending-node-termination", corev1.TaintEffectNoSchedule)),
			&departure.Departure{Why: "is being reclaimed: it has the taint cloud.google.com/impending-node-termination", Within: 25 * time.Second}},
		"of two the shorter": {node(false, nil, nil, taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule), taint("aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule)),
			&departure.Departure{Why: "is being reclaimed: it has the taint aws-node-termination-handler/spot-itn", Within: 110 * time.Second}},
		"an order on a machine that goes": {node(true, after(time.Minute), nil, taint("aws-node-termination-handler/spot-itn", corev1.TaintEffectNoSchedule)),
			&departure.Departure{Why: "is being drained (muster node drain)", Notice: time.Minute, Within: 110 * time.Second}},
		"a condition": {node(false, nil, scheduled("PreemptScheduled", corev1.ConditionTrue)),
			&departure.Departure{Why: "is about to go: its condition VMEventScheduled is true (PreemptScheduled)", Within: 25 * time.Second, Silent: true}},
		"a condition of another reason": {node(false, nil, scheduled("FreezeScheduled", corev1.ConditionTrue)), nil},
		"a condition that is false":     {node(false, nil, scheduled("PreemptScheduled", corev1.ConditionFalse)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got *departure.Departure
			if d, leaves := departure.Known().Of(c.node); leaves {
				got = &d
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, s := range departure.Known() {
		got, err := departure.Parse(s.String())
		if diff := cmp.Diff(s, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", s, err, diff)
		}
	}
	for _, text := range []string{"", "=25s", "a b", "key=soon", "key=1ms", "condition:"} {
		if s, err := departure.Parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}

// TestAnOrderIsTakenBack leaves what others did to the node as it is.
func TestAnOrderIsTakenBack(t *testing.T) {
	n := node(false, nil, nil, taint("other", corev1.TaintEffectNoSchedule))
	departure.Order(n, time.Minute)
	departure.Order(n, 0)
	if d, ordered := departure.Ordered(n); !ordered || d.Notice != 0 || !n.Spec.Unschedulable || len(n.Spec.Taints) != 2 {
		t.Errorf("after two orders: %+v, %+v", d, n.Spec)
	}
	departure.Withdraw(n)
	if diff := cmp.Diff(corev1.NodeSpec{Taints: []corev1.Taint{taint("other", corev1.TaintEffectNoSchedule)}}, n.Spec); diff != "" {
		t.Error(diff)
	}
	n.Spec.Unschedulable = true
	if departure.Withdraw(n); !n.Spec.Unschedulable {
		t.Error("somebody else's cordon was taken off")
	}
}
