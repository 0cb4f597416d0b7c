package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// standsFor is the UID of the gang for which a pod asks for a node; empty for a
// pod that is to run.
func standsFor(p *corev1.Pod) types.UID { return types.UID(p.Labels[v1alpha1.LabelPlaceholder]) }

// asked is for how many members of these gangs nodes were asked for.
func (m *mirror) asked(units map[types.UID]bool) map[types.UID]int32 {
	if len(m.places) == 0 {
		return nil
	}
	out := map[types.UID]int32{}
	for unit := range units {
		if n := len(m.places[unit]); n > 0 {
			out[unit] = int32(n)
		}
	}
	return out
}

// want tells who would start if nodes came.
func (l *Loop) want(waiting []scheduling.Waiting) {
	if l.options.Wanting == nil {
		return
	}
	var all, wanting []*v1alpha1.Gang
	for i := range waiting {
		if g := l.mirror.gang(types.UID(waiting[i].UID)); g != nil {
			all = append(all, g)
		}
	}
	for _, uid := range l.core.Wanting(waiting) {
		if g := l.mirror.gang(types.UID(uid)); g != nil {
			wanting = append(wanting, g)
		}
	}
	l.options.Wanting(all, wanting)
}
