package snapshot

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// use has pods use some of the claims there may be.
func (s *store) use(spec *corev1.PodSpec) {
	if s.rng.IntN(3) > 0 {
		return
	}
	spec.Volumes = specWith([]string{"data", "code"}[s.rng.IntN(2)]).Volumes
}

// storage changes a claim or a volume: bound or not, tied to a node or not, there
// or not.
func (s *store) storage() {
	claim, volume := []string{"data", "code"}[s.rng.IntN(2)], []string{"pv", "pw"}[s.rng.IntN(2)]
	switch s.rng.IntN(6) {
	case 0, 1:
		c := testClaim(claim, []string{"", volume}[s.rng.IntN(2)])
		c.UID = types.UID("claim-" + claim)
		put(s, s.claims, c)
	case 2, 3:
		v := testVolume(volume, claim)
		v.UID = types.UID("volume-" + volume)
		if s.rng.IntN(3) > 0 {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint("n", s.rng.IntN(5))}}},
			}}}}
		}
		put(s, s.volumes, v)
	case 4:
		if c, ok := some(s, s.claims); ok {
			drop(s, s.claims, c)
		}
	case 5:
		if v, ok := some(s, s.volumes); ok {
			drop(s, s.volumes, v)
		}
	}
}

// askForNodes makes or removes a pod that asks for a node for a gang.
func (s *store) askForNodes() {
	if p, ok := some(s, s.places); ok && s.rng.IntN(2) == 0 {
		drop(s, s.places, p)
		return
	}
	g, ok := some(s, s.gangs)
	if !ok {
		return
	}
	s.next++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.SystemNamespace, Name: fmt.Sprint("for-", s.next), UID: types.UID(fmt.Sprint("uid-for-", s.next)),
		Labels: map[string]string{v1alpha1.LabelPlaceholder: string(g.UID)},
	}}
	p.Spec.SchedulerName = v1alpha1.SchedulerName
	put(s, s.places, p)
}

// listStorage shows claims, volumes and pods that ask for nodes to a world.
func (s *store) listStorage(w *world) {
	for _, c := range s.claims {
		w.anchors.claim(client.ObjectKeyFromObject(c), c)
	}
	for _, v := range s.volumes {
		w.anchors.volume(v.Name, v)
	}
	for _, p := range s.places {
		w.asked[standsFor(p)]++
	}
}
