package ahead

import (
	"slices"
	"sync"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot"
)

const (
	// good is for how long orders are, after they were given.
	good = time.Minute
	// mostOfNode is how many orders a node is given at most.
	mostOfNode = 16
)

// Orders are what agents are to fetch ahead. It implements [snapshot.Ahead].
type Orders struct {
	now func() time.Time

	mu sync.Mutex
	// told is when the scheduler said something last; zero: another replica's does.
	told time.Time
	of   map[string][]v1alpha1.DataOrder // by node, in the order of the gangs' turns
	// changed is closed, and made anew, when there are other orders.
	changed chan struct{}
}

// New returns orders of nobody. Now is the clock; nil: [time.Now].
func New(now func() time.Time) *Orders {
	if now == nil {
		now = time.Now
	}
	return &Orders{now: now, of: map[string][]v1alpha1.DataOrder{}, changed: make(chan struct{})}
}

// Wants reports whether a gang reads anything.
func (o *Orders) Wants(g *v1alpha1.Gang) bool { return len(reads(g)) > 0 }

// Tell gives orders for all that start before long, in place of those before.
func (o *Orders) Tell(soon []snapshot.Prospect) {
	of := map[string][]v1alpha1.DataOrder{}
	for _, p := range soon {
		parts := reads(p.Gang)
		for _, node := range p.Nodes {
			for _, part := range parts {
				if len(of[node]) < mostOfNode && !slices.Contains(of[node], part) {
					of[node] = append(of[node], part)
				}
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.told.IsZero()
	o.told = o.now()
	if !first && same(o.of, of) {
		return
	}
	o.of = of
	close(o.changed)
	o.changed = make(chan struct{})
}

func same(a, b map[string][]v1alpha1.DataOrder) bool {
	if len(a) != len(b) {
		return false
	}
	for node := range a {
		if !slices.Equal(a[node], b[node]) {
			return false
		}
	}
	return true
}

// Of are the orders of a node, and is closed once any node has others. It is false where
// another replica gives the orders.
func (o *Orders) Of(node string) (orders []v1alpha1.DataOrder, changed <-chan struct{}, ours bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told.IsZero() {
		return nil, o.changed, false
	}
	return slices.Clone(o.live()[node]), o.changed, true
}

// May reports whether a node has an order of a namespace's data; ours is as that of Of.
func (o *Orders) May(node, namespace string) (may, ours bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.live()[node], func(d v1alpha1.DataOrder) bool { return d.Namespace == namespace }), !o.told.IsZero()
}

// live are the orders that are good. The lock is held.
func (o *Orders) live() map[string][]v1alpha1.DataOrder {
	if o.now().Sub(o.told) > good {
		return nil
	}
	return o.of
}

// reads are the parts of commits that the pods of a gang name, each once. What is mounted
// to be read on demand is not fetched, and a desk is no part of any.
func reads(g *v1alpha1.Gang) []v1alpha1.DataOrder {
	var out []v1alpha1.DataOrder
	for i := range g.Spec.Roles {
		for _, v := range g.Spec.Roles[i].Template.Spec.Volumes {
			if v.CSI == nil || v.CSI.Driver != v1alpha1.DataDriver || v.CSI.VolumeAttributes["lazy"] == "true" || v.CSI.VolumeAttributes["desk"] == "true" {
				continue
			}
			a := v.CSI.VolumeAttributes
			part := v1alpha1.DataOrder{Namespace: g.Namespace, Commit: a["commit"], Path: a["path"], Key: a["key"], Words: a["words"]}
			if !slices.Contains(out, part) {
				out = append(out, part)
			}
		}
	}
	return out
}
