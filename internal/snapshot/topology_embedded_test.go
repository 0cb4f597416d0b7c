//go:build embedded

package snapshot_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestTopology: gangs and lone pods on two racks of two nodes each go where
// they ask to be, or say why they wait.
func TestTopology(t *testing.T) {
	s := newStage(t)
	if err := s.api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}); err != nil {
		t.Fatal(err)
	}
	rackOf := map[string]string{}
	for _, rack := range []string{"r1", "r2"} {
		for i := range 2 {
			name := fmt.Sprintf("%s-n%d", rack, i)
			rackOf[name] = rack
			s.addNode(t.Context(), name, name, 4, map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: "z", v1alpha1.LabelRack: rack,
			})
		}
	}
	says := func(name, part string) {
		t.Helper()
		s.Eventually(name+" is told: "+part, func() bool { return strings.Contains(s.gang(name).Status.Message, part) })
	}
	in := func(name string) map[string]int {
		racks := map[string]int{}
		for _, p := range s.Pods(name) {
			racks[rackOf[p.Spec.NodeName]]++
		}
		return racks
	}
	submit := func(name string, workers int32, gpus string, edit func(*v1alpha1.GangSpec)) error {
		q := resource.MustParse(gpus)
		g := &v1alpha1.Gang{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{v1alpha1.GangFinalizer}},
			Spec: v1alpha1.GangSpec{DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{
				Name: "worker", Replicas: workers, GPUs: &q, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "muster.dev/host"}}},
				},
			}}},
		}
		edit(&g.Spec)
		return s.api.Create(t.Context(), g)
	}
	accepted := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	within := func(l v1alpha1.Level, required bool) func(*v1alpha1.GangSpec) {
		return func(g *v1alpha1.GangSpec) { g.Topology = &v1alpha1.Topology{Within: l, Required: required} }
	}
	// 1. Within a rack: the fuller one stays so, and the whole one whole.
	accepted(submit("small", 1, "2", within(v1alpha1.LevelRack, true)))
	s.running("small")
	accepted(submit("beside", 3, "2", within(v1alpha1.LevelRack, true)))
	s.running("beside")
	if a, b := in("small"), in("beside"); len(b) != 1 || fmt.Sprint(a) != strings.Replace(fmt.Sprint(b), ":3", ":1", 1) {
		t.Errorf("small is in %v, beside in %v", a, b)
	}
	accepted(submit("large", 3, "4", within(v1alpha1.LevelRack, true)))
	says("large", "needs 12 GPUs within one rack; of 2 racks r1 is the largest, with 8 GPUs")
	accepted(submit("whole", 2, "4", within(v1alpha1.LevelRack, true)))
	s.running("whole")
	s.remove("small", metav1.DeletePropagationBackground)
	s.remove("beside", metav1.DeletePropagationBackground)
	accepted(submit("waits", 2, "4", within(v1alpha1.LevelNode, true)))
	says("waits", "needs 8 GPUs on one node; of 4 nodes")
	s.remove("whole", metav1.DeletePropagationBackground)
	// 2. Apart.
	accepted(submit("apart", 4, "1", func(g *v1alpha1.GangSpec) {
		g.Roles[0].Spread = &v1alpha1.Spread{Over: v1alpha1.LevelNode, Required: true}
	}))
	s.running("apart")
	if racks := in("apart"); racks["r1"] != 2 || racks["r2"] != 2 {
		t.Errorf("apart is in %v", racks)
	}
	err := submit("both", 2, "1", func(g *v1alpha1.GangSpec) {
		within(v1alpha1.LevelRack, true)(g)
		g.Roles[0].Spread = &v1alpha1.Spread{Over: v1alpha1.LevelZone, Required: true}
	})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spread over a narrower level than topology.within") {
		t.Errorf("within a rack and over zones: %v", err)
	}
	// 3. What a template asks for in the words of Kubernetes.
	region := corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyRegion, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}
	accepted(submit("region", 1, "0", func(g *v1alpha1.GangSpec) {
		g.Roles[0].Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{region},
		}}
	}))
	says("region", `role worker: template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey is "topology.kubernetes.io/region", which Muster does not know; use one of kubernetes.io/hostname`)
	s.Eventually("region fails", func() bool { return s.gang("region").Status.Phase == v1alpha1.GangFailed })
	accepted(submit("even", 4, "0", func(g *v1alpha1.GangSpec) {
		g.Roles[0].Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1alpha1.LabelRack, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "even"}},
		}}
	}))
	s.running("even")
	if racks := in("even"); racks["r1"] != 2 || racks["r2"] != 2 {
		t.Errorf("even is in %v", racks)
	}
	s.lonePods(t, rackOf)
}

// lonePods are apart on all nodes, and the fifth waits.
func (s *stage) lonePods(t *testing.T, rackOf map[string]string) {
	at := map[string]bool{}
	for i := range 5 {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i), Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Image: "x"}},
				Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
					}},
				}},
			},
		}
		if err := s.api.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if i < len(rackOf) {
			s.Eventually(p.Name+" is bound", func() bool {
				return s.api.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Spec.NodeName != ""
			})
			at[p.Spec.NodeName] = true
			continue
		}
		s.Eventually("the last is told why it waits", func() bool {
			return s.api.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && len(p.Status.Conditions) > 0 &&
				strings.Contains(p.Status.Conditions[0].Message, "there is room, but not where spec.affinity.podAntiAffinity")
		})
	}
	if len(at) != len(rackOf) {
		t.Errorf("they are on %v", at)
	}
}
