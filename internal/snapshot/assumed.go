package snapshot

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// assumed counts writes before the watch has shown them. A write is assumed
// before it is sent, and no longer once the watch shows its object in any
// state, or the API server has definitely refused it.
//
// A pass must copy what is assumed before it takes what the watch showed, and
// the watch must show an object to the mirror before it is no longer assumed: an
// object that moves from here to there in between is then seen twice, never not
// at all.
type assumed struct {
	// changed is called with the UID of the gang or pod of which something else
	// is assumed than before.
	changed func(types.UID)

	mu         sync.Mutex
	placements map[types.NamespacedName]*v1alpha1.Placement
	bindings   map[types.UID]*corev1.Pod
	highest    map[types.UID]int32
	// leaving are the placements that were ordered back, and their gangs.
	leaving map[types.UID]types.UID

	// sinceMu guards since, the UIDs of which something else is assumed since
	// all was copied last.
	sinceMu sync.Mutex
	since   []types.UID
}

func newAssumed(changed func(types.UID)) *assumed {
	return &assumed{
		changed:    changed,
		placements: map[types.NamespacedName]*v1alpha1.Placement{},
		bindings:   map[types.UID]*corev1.Pod{},
		highest:    map[types.UID]int32{},
		leaving:    map[types.UID]types.UID{},
	}
}

// copied is what was assumed at one moment.
type copied struct {
	placements map[types.NamespacedName]*v1alpha1.Placement
	bindings   map[types.UID]*corev1.Pod
	leaving    map[types.UID]types.UID
}

// highestOf are the highest attempts seen of some gangs. Unlike what is
// assumed it may be read at any time: it only grows.
func (a *assumed) highestOf(gangs []v1alpha1.Gang) map[types.UID]int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[types.UID]int32, len(gangs))
	for i := range gangs {
		if highest, ok := a.highest[gangs[i].UID]; ok {
			out[gangs[i].UID] = highest
		}
	}
	return out
}

// touch says that something else is assumed of a gang or pod than before.
func (a *assumed) touch(uid types.UID) {
	a.sinceMu.Lock()
	a.since = append(a.since, uid)
	a.sinceMu.Unlock()
	a.changed(uid)
}

// sinceCopied are the gangs and pods of which something else may be assumed than
// what was copied last says.
func (a *assumed) sinceCopied() []types.UID {
	a.sinceMu.Lock()
	defer a.sinceMu.Unlock()
	out := a.since
	a.since = nil
	return out
}

func (a *assumed) copy() copied {
	a.sinceCopied()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := copied{
		placements: make(map[types.NamespacedName]*v1alpha1.Placement, len(a.placements)),
		bindings:   make(map[types.UID]*corev1.Pod, len(a.bindings)),
		leaving:    maps.Clone(a.leaving),
	}
	for k, v := range a.placements {
		c.placements[k] = v
	}
	for k, v := range a.bindings {
		c.bindings[k] = v
	}
	return c
}

func keyOf(p *v1alpha1.Placement) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

// placement assumes that a Placement exists.
func (a *assumed) placement(p *v1alpha1.Placement) {
	defer a.touch(p.Spec.GangUID)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.placements[keyOf(p)] = p
}

// noPlacement takes back an assumption: the Placement was refused.
func (a *assumed) noPlacement(p *v1alpha1.Placement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if have := a.placements[keyOf(p)]; have != nil && have.Spec.GangUID == p.Spec.GangUID && have.Spec.Attempt == p.Spec.Attempt {
		delete(a.placements, keyOf(p))
		defer a.touch(p.Spec.GangUID)
	}
}

// seen notes that the watch showed a Placement, whatever happened to it.
func (a *assumed) seen(p *v1alpha1.Placement) {
	a.noPlacement(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.DeletionTimestamp != nil {
		delete(a.leaving, p.UID)
	}
	if p.Spec.Attempt > a.highest[p.Spec.GangUID] {
		defer a.touch(p.Spec.GangUID)
	}
	a.highest[p.Spec.GangUID] = max(a.highest[p.Spec.GangUID], p.Spec.Attempt)
}

// forget drops what was kept for a gang that is no more.
func (a *assumed) forget(gang types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.highest, gang)
}

// binding assumes that a pod, given with its node and GPUs, is bound.
func (a *assumed) binding(p *corev1.Pod) {
	defer a.touch(p.UID)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bindings[p.UID] = p
}

// noBinding takes back an assumption: the pod is bound in the cache, is gone,
// or the binding was refused.
func (a *assumed) noBinding(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bindings[uid] != nil {
		delete(a.bindings, uid)
		defer a.touch(uid)
	}
}
