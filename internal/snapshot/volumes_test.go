package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

func testClaim(name, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name}}
	c.Spec.VolumeName = volume
	return c
}

// testVolume can be used where a label says so; nowhere named: everywhere.
func testVolume(name, claim string, zones ...string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "vision", Name: claim}
	if len(zones) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: zones}},
		}}}}
	}
	return v
}

func specWith(claims ...string) *corev1.PodSpec {
	spec := &corev1.PodSpec{Volumes: []corev1.Volume{{Name: "scratch"}}}
	for _, claim := range claims {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return spec
}

func TestVolumesTieToNodes(t *testing.T) {
	tied := func(claim string, zones ...string) scheduling.Volume {
		return scheduling.Volume{Claim: claim, Terms: [][]scheduling.Expression{{{Key: "zone", Operator: "In", Values: zones}}}}
	}
	for name, c := range map[string]struct {
		claims  []*corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		spec    *corev1.PodSpec
		want    []scheduling.Volume
	}{
		"no volume":                  {nil, nil, specWith(), nil},
		"a claim that is not there":  {nil, nil, specWith("data"), nil},
		"a claim that waits":         {[]*corev1.PersistentVolumeClaim{testClaim("data", "")}, nil, specWith("data"), nil},
		"a volume that is not shown": {[]*corev1.PersistentVolumeClaim{testClaim("data", "pv")}, nil, specWith("data"), nil},
		"a volume of every node":     {[]*corev1.PersistentVolumeClaim{testClaim("data", "pv")}, []*corev1.PersistentVolume{testVolume("pv", "data")}, specWith("data"), nil},
		"a volume of a zone": {
			[]*corev1.PersistentVolumeClaim{testClaim("data", "pv")}, []*corev1.PersistentVolume{testVolume("pv", "data", "a", "b")}, specWith("data", "data"),
			[]scheduling.Volume{tied("data", "a", "b")},
		},
		"two of them": {
			[]*corev1.PersistentVolumeClaim{testClaim("data", "pv"), testClaim("code", "pw")},
			[]*corev1.PersistentVolume{testVolume("pv", "data", "a"), testVolume("pw", "code", "b")}, specWith("data", "code"),
			[]scheduling.Volume{tied("code", "b"), tied("data", "a")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAnchors()
			for _, claim := range c.claims {
				a.claim(types.NamespacedName{Namespace: "vision", Name: claim.Name}, claim)
			}
			for _, v := range c.volumes {
				a.volume(v.Name, v)
			}
			if diff := cmp.Diff(c.want, a.of("vision", c.spec)); diff != "" {
				t.Error(diff)
			}
			a.names("unit", claimsOf("vision", c.spec))
			if diff := cmp.Diff(c.want, a.part(map[types.UID]bool{"unit": true}).of("vision", c.spec)); diff != "" {
				t.Errorf("as a part: %s", diff)
			}
		})
	}
}

// Only what changes where a unit can be has it looked at again, and of units
// only those that name the claim.
func TestWhomAVolumeConcerns(t *testing.T) {
	a := newAnchors()
	key := types.NamespacedName{Namespace: "vision", Name: "data"}
	a.names("mine", claimsOf("vision", specWith("data")))
	a.names("other", claimsOf("vision", specWith("code")))
	steps := []struct {
		what string
		do   func() map[types.UID]bool
		want map[types.UID]bool
	}{
		{"a claim that waits", func() map[types.UID]bool { return a.claim(key, testClaim("data", "")) }, nil},
		{"its volume, not bound yet", func() map[types.UID]bool { return a.volume("pv", testVolume("pv", "data", "a")) }, nil},
		{"it is bound", func() map[types.UID]bool { return a.claim(key, testClaim("data", "pv")) }, map[types.UID]bool{"mine": true}},
		{"nothing new", func() map[types.UID]bool { return a.claim(key, testClaim("data", "pv")) }, nil},
		{"the volume moves", func() map[types.UID]bool { return a.volume("pv", testVolume("pv", "data", "b")) }, map[types.UID]bool{"mine": true}},
		{"the volume is gone", func() map[types.UID]bool { return a.volume("pv", nil) }, map[types.UID]bool{"mine": true}},
		{"the unit is gone", func() map[types.UID]bool { a.names("mine", nil); return a.volume("pv", testVolume("pv", "data", "a")) }, nil},
	}
	for _, step := range steps {
		got := step.do()
		if len(got) != len(step.want) || len(got) > 0 && !cmp.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if len(a.named) != 1 || len(a.users) != 1 {
		t.Errorf("what is gone is remembered: %v, %v", a.named, a.users)
	}
}

// A node that is about to go takes nothing, whatever is tolerated; one that was
// cordoned is left to the core.
func TestANodeThatLeavesTakesNothing(t *testing.T) {
	signs := departure.Signs{{Taint: "spot"}, {Condition: "Reclaimed"}}
	for name, c := range map[string]struct {
		edit func(*corev1.Node)
		want string
	}{
		"like any": {func(*corev1.Node) {}, ""},
		"cordoned": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, ""},
		"drained":  {func(n *corev1.Node) { departure.Order(n, 0) }, "it is being drained (muster node drain)"},
		"a sign that is heeded": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
		}, "it is being drained: it has the taint spot"},
		"a sign that nobody heeds": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}, ""},
		"a condition that is a sign": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Reclaimed", Status: corev1.ConditionTrue, Reason: "Spot"}}
		}, "it is about to go: its condition Reclaimed is true"},
		"a condition that is not true": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Reclaimed", Status: corev1.ConditionFalse}}
		}, ""},
	} {
		before, after := &corev1.Node{}, &corev1.Node{}
		c.edit(after)
		if got := conversion.GPUResources(nil).StayingNode(after, signs).NotReady; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.want != "" && !matters(before, after) {
			t.Errorf("%s: that does not matter", name)
		}
	}
}
