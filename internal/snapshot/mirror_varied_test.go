package snapshot

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// vary makes a gang elastic, lets it ask for parts of GPUs, for nodes that are
// near each other, or to be apart from others.
func (s *store) vary(g *v1alpha1.Gang) {
	r := &g.Spec.Roles[0]
	switch s.rng.IntN(7) {
	case 0, 1, 2:
		least := 1 + s.rng.Int32N(r.Replicas)
		r.Replicas += 2
		r.MinReplicas = &least
	case 3:
		part := resource.MustParse([]string{"250m", "500m", "1500m"}[s.rng.IntN(3)])
		r.GPUs = &part
	case 4:
		g.Spec.Topology = &v1alpha1.Topology{Within: v1alpha1.LevelRack, Required: s.rng.IntN(2) == 0}
	case 5:
		if s.rng.IntN(4) == 0 {
			r.Template.Spec.Affinity = apart("a")
		}
	}
	r.Template.Labels = map[string]string{"app": []string{"a", "b"}[s.rng.IntN(2)]}
}

// apart keeps pods off the nodes of those with a label.
func apart(app string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}}}}
}

// locate puts a node into a rack.
func (s *store) locate(n *corev1.Node) {
	n.Labels = map[string]string{v1alpha1.LabelRack: fmt.Sprint("r", s.rng.IntN(2)), corev1.LabelTopologyZone: "z"}
}

// count makes a node one that only counts its GPUs, and mostly Muster's.
func (s *store) count(n *corev1.Node, gpus int) {
	delete(n.Annotations, v1alpha1.AnnotationInventory)
	if s.rng.IntN(4) > 0 {
		n.Labels[v1alpha1.LabelOwned] = "true"
	}
	n.Labels[v1alpha1.LabelGPUModel] = "NVIDIA-A100-SXM4-80GB"
	n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
	n.Status.Allocatable[v1alpha1.ResourceGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
}

// begin lets a gang's members all have started, so that it may grow, and report.
func (s *store) begin(g *v1alpha1.Gang) {
	at := metav1.NewMicroTime(s.now)
	g.Status.Phase, g.Status.Attempt, g.Status.AllStartedTime = v1alpha1.GangRunning, s.attempt(g), &at
	g.Status.Progress = &v1alpha1.Progress{Points: []v1alpha1.ProgressPoint{{RanSeconds: 60, DoneMillionths: s.rng.Int64N(v1alpha1.Whole)}}}
}

// start lets the members of a gang that is placed begin.
func (s *store) start() {
	if p, ok := some(s, s.placements); ok {
		if g := s.gangs[p.Namespace+"/"+p.Spec.Gang]; g != nil && g.Status.Outcome == "" && s.loop.counts(p) {
			g = g.DeepCopy()
			s.begin(g)
			put(s, s.gangs, g)
		}
	}
}

// late shows a Placement that a scheduler wrote after it had been replaced.
func (s *store) late() {
	g, ok := some(s, s.gangs)
	if !ok {
		return
	}
	plan := scheduling.Plan{UID: string(g.UID), Attempt: s.attempt(g) + 1, Members: []scheduling.Assignment{{Role: "worker", Node: "n0"}}}
	p := placementOf(g, plan, 0, s.now)
	if s.placements[p.Namespace+"/"+p.Name] != nil {
		return
	}
	if s.loop.counts(p) {
		s.t.Fatal("a late Placement is not void")
	}
	s.next++
	p.UID = types.UID(fmt.Sprint("uid-late-", s.next))
	put(s, s.placements, p)
}

// resize does with growth, and with orders to give back, what the loop does.
func (s *store) resize(result scheduling.Result) {
	for _, growth := range result.Growths {
		s.loop.mirror.touch(types.UID(growth.UID))
		g := s.loop.mirror.gang(types.UID(growth.UID))
		if g == nil {
			continue // it was deleted; its members hold their places still
		}
		s.next++
		p := extensionOf(g, growth, 1, int64(s.next), s.now)
		s.loop.assumed.placement(p)
		s.sent = append(s.sent, p)
	}
	for _, b := range result.GiveBacks {
		s.loop.mirror.touch(types.UID(b.UID))
		p := s.loop.mirror.placement(types.UID(b.UID), types.UID(b.Journal))
		if p == nil {
			s.t.Fatalf("given back what is not there: %+v", b)
		}
		s.loop.assumed.leaves(p.UID, p.Spec.GangUID)
		s.ordered = append(s.ordered, p)
		s.givenBack++
	}
	s.grown += len(result.Growths)
}

// obey lets orders to give back arrive, be refused, or be on their way still.
func (s *store) obey() {
	s.ordered = slices.DeleteFunc(s.ordered, func(p *v1alpha1.Placement) bool {
		gone := s.placements[p.Namespace+"/"+p.Name] == nil
		switch at := metav1.NewTime(s.now.Truncate(time.Second)); s.rng.IntN(3) {
		case 0:
			return gone
		case 1:
			s.loop.assumed.left(p.UID)
		case 2:
			if !gone {
				leaving := p.DeepCopy()
				leaving.DeletionTimestamp = &at
				put(s, s.placements, leaving)
			}
		}
		return true
	})
}
