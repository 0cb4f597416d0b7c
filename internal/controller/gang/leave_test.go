package gang

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
)

func init() {
	for name, flow := range map[string]func(w *world){
		"its node is drained, and taken back": func(w *world) {
			w.phase(v1alpha1.GangRunning)
			w.changeNode(func(n *corev1.Node) { departure.Order(n, time.Minute) })
			w.phase(v1alpha1.GangPending)
			w.holdsNothing()
			w.changeNode(departure.Withdraw)
			w.moved("is being drained")
		},
		"a member is evicted": func(w *world) {
			w.change(func(g *v1alpha1.Gang) { g.Spec.Restart = v1alpha1.RestartScopeGang })
			w.phase(v1alpha1.GangRunning)
			w.setPods(evictedNow, "resnet-worker-1")
			w.must(w.api.Delete(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "resnet-worker-1"}}))
			w.moved("evicted")
		},
	} {
		orders[name] = flow
	}
}

// evictedNow is a member as the Eviction API leaves it.
var evictedNow = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
	Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
}}}

// changeNode edits the node.
func (w *world) changeNode(edit func(*corev1.Node)) {
	w.t.Helper()
	n := &corev1.Node{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: "here"}, n))
	edit(n)
	w.must(w.api.Update(w.t.Context(), n))
}

// moved asserts that the gang runs in its second attempt, that the first ended
// for a node's sake, and that nothing is held against it.
func (w *world) moved(why string) {
	w.t.Helper()
	w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
	w.phase(v1alpha1.GangRunning)
	s := w.gang(w.t.Context()).Status
	if !strings.Contains(s.EvictedFrom, why) || s.Evictions != 0 || s.Restarts != 0 || s.Refusals != 0 || s.EvictedTime != nil || s.Outcome != "" {
		w.t.Fatalf("after its node left: %+v", s)
	}
	w.holdsAll()
}

// Two nodes, of which "there" may leave; member 1 is on it.
func leaving(at stands, pods ...*corev1.Pod) observed {
	g := testGang()
	g.Spec.Roles = g.Spec.Roles[1:]
	g.Status = v1alpha1.GangStatus{Phase: v1alpha1.GangRunning, Attempt: 1}
	p := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "resnet-1"}, Spec: v1alpha1.PlacementSpec{
		Attempt: 1, Nodes: []string{"here", "there"}, Members: []v1alpha1.PlacedMember{{Role: "worker", Index: 0, Node: 0}, {Role: "worker", Index: 1, Node: 1}},
	}}
	return observed{
		gang: g, placement: p, pods: pods, now: time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC),
		node: func(name string) stands {
			if name == "there" {
				return at
			}
			return stands{there: true}
		},
	}
}

func memberPod(index, node string, status corev1.PodStatus, going bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "resnet-worker-" + index, Labels: map[string]string{
		v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: index, v1alpha1.LabelAttempt: "1",
	}}, Status: status}
	p.UID, p.Spec.NodeName = types.UID("uid-"+index), node
	if going {
		now := metav1.Now()
		p.DeletionTimestamp = &now
	}
	return p
}

func TestWhatANodeThatLeavesEnds(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	shutDown := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Terminated", Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
	}}}
	pressure := *shutDown.DeepCopy()
	pressure.Reason = "Evicted"
	pressure.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, StartedAt: metav1.Now()}}}}
	drained := stands{there: true, leaves: true, Departure: departure.Departure{Why: "is being drained"}}
	stays := stands{there: true}
	for name, c := range map[string]struct {
		o    observed
		done []string
		want string // in the message; empty: the attempt goes on
	}{
		"a node that stays":           {leaving(stays, memberPod("0", "here", running, false), memberPod("1", "there", running, false)), nil, ""},
		"a node that is drained":      {leaving(drained, memberPod("0", "here", running, false), memberPod("1", "there", running, false)), nil, "its node there is being drained"},
		"drained before the pod is":   {leaving(drained, memberPod("0", "here", running, false)), nil, "its node there is being drained"},
		"its member there is done":    {leaving(drained, memberPod("0", "here", running, false)), []string{"worker-1"}, ""},
		"a node that is gone":         {leaving(stands{}, memberPod("0", "here", running, false), memberPod("1", "there", running, false)), nil, "its node there is gone"},
		"a member that is evicted":    {leaving(stays, memberPod("0", "here", running, false), memberPod("1", "there", evictedNow, true)), nil, "its node there put worker-1 out: it was evicted"},
		"an eviction that was tried":  {leaving(stays, memberPod("0", "here", running, false), memberPod("1", "there", evictedNow, false)), nil, ""},
		"a machine that shuts down":   {leaving(stays, memberPod("0", "here", running, false), memberPod("1", "there", shutDown, false)), nil, "the machine shuts down"},
		"a kubelet short of memory":   {leaving(stays, memberPod("0", "here", running, false), memberPod("1", "there", pressure, false)), nil, ""},
		"an evicted pod that is gone": {goneOf(leaving(stays, memberPod("0", "here", running, false)), memberPod("1", "there", evictedNow, true)), nil, "put worker-1 out"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.gang.Status.Done = c.done
			d := decide(c.o)
			ends := d.status.Phase == v1alpha1.GangDraining
			if ends != (c.want != "") || !strings.Contains(d.status.Message, c.want) {
				t.Errorf("phase %s, message %q, want %q", d.status.Phase, d.status.Message, c.want)
			}
			if ends && (d.status.EvictedFrom == "" || d.status.EvictedTime == nil || d.status.Restarts+d.status.Refusals+d.status.Evictions != 0 || d.status.NotBefore != nil) {
				t.Errorf("status %+v", d.status)
			}
		})
	}
}

func goneOf(o observed, gone ...*corev1.Pod) observed {
	o.gone = gone
	return o
}

func TestNoticeOfANodeThatLeaves(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		at   departure.Departure
		own  *int64
		here *int64 // of a member elsewhere
		want *int64 // of the member there
	}{
		"its own":                {departure.Departure{}, seconds(60), nil, nil},
		"a person's":             {departure.Departure{Notice: 2 * time.Minute}, seconds(60), seconds(120), seconds(120)},
		"a machine that goes":    {departure.Departure{Within: 25 * time.Second}, seconds(60), nil, seconds(25)},
		"its own is shorter":     {departure.Departure{Within: 110 * time.Second}, nil, nil, nil},
		"a person's is too long": {departure.Departure{Notice: time.Hour, Within: 25 * time.Second}, nil, seconds(3600), seconds(25)},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := memberPod("0", "here", corev1.PodStatus{}, false), memberPod("1", "there", corev1.PodStatus{}, false)
			here.Spec.TerminationGracePeriodSeconds, there.Spec.TerminationGracePeriodSeconds = c.own, c.own
			o := leaving(stands{there: true, leaves: true, Departure: c.at}, here, there)
			for pod, want := range map[*corev1.Pod]*int64{here: c.here, there: c.want} {
				if got := o.notices()(pod); (got == nil) != (want == nil) || got != nil && *got != *want {
					t.Errorf("%s: %v, want %v", pod.Spec.NodeName, got, want)
				}
			}
		})
	}
}

// Of an elastic gang only the replica that it can do without leaves.
func TestAnExtraMemberLeavesByItself(t *testing.T) {
	least := int32(1)
	drained := stands{there: true, leaves: true, Departure: departure.Departure{Why: "is being drained"}}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	for name, c := range map[string]struct {
		at    stands
		extra *corev1.Pod
		goes  bool
	}{
		"its node stays":      {stands{there: true}, memberPod("1", "there", running, false), false},
		"its node is drained": {drained, memberPod("1", "there", running, false), true},
		"it is evicted":       {stands{there: true}, memberPod("1", "there", evictedNow, true), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := leaving(c.at, memberPod("0", "here", running, false), c.extra)
			o.gang.Spec.Roles[0].MinReplicas = &least
			o.gang.Status.AllStartedTime = &metav1.MicroTime{Time: o.now}
			o.placement.Spec.Nodes, o.placement.Spec.Members = []string{"here"}, o.placement.Spec.Members[:1]
			c.extra.Annotations = map[string]string{v1alpha1.AnnotationExtension: "resnet-1-x"}
			o.extensions = []*v1alpha1.Placement{{ObjectMeta: metav1.ObjectMeta{Name: "resnet-1-x", UID: "x"}, Spec: v1alpha1.PlacementSpec{
				Attempt: 1, Extends: "resnet-1", Nodes: []string{"there"}, Members: []v1alpha1.PlacedMember{{Role: "worker", Index: 1}},
			}}}
			d := decide(o)
			if d.status.Phase != v1alpha1.GangRunning || d.status.EvictedFrom != "" || d.status.Shrunk != 0 {
				t.Errorf("the gang is %s: %+v", d.status.Phase, d.status)
			}
			if goes := len(d.recall) == 1; goes != c.goes {
				t.Errorf("its placement is recalled: %v, want %v", goes, c.goes)
			}
		})
	}
}
