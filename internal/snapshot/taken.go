package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

// taken is what has changed, as objects.
type taken struct {
	world
	// nodesGone are the names of nodes that are no more.
	nodesGone []string
	// about are the UIDs of all requests and pods that the world shows or no
	// longer has.
	about []string
	// written are the placements of the world that are not only assumed, with
	// those that are void.
	written []v1alpha1.Placement
	// ended are the units of which the gang, or the pod, is gone.
	ended         []types.UID
	queuesChanged bool
	// censuses are all that quotas count, by namespace, where that changed;
	// spaces are those namespaces, with those that have no quota.
	censuses map[string]*world
	spaces   []string
	// fresh is true if anything had changed since it was last taken.
	fresh bool
}

// ended takes the members that have ended since they were last taken, where the
// rest of their gangs has not changed.
func (m *mirror) ended() []memberOf {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.DeleteFunc(m.dirty.ended, func(at memberOf) bool { return m.dirty.units[at.gang] })
	m.dirty.ended = nil
	return out
}

// take returns what has changed since it was last called, with what is assumed
// laid over it; with all, everything there is. What is assumed must have been
// copied before: see assumed.
func (m *mirror) take(ahead copied, all bool) taken {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dirty
	m.dirty = newDirt()
	for _, at := range d.ended {
		d.units[at.gang] = true // since the others were taken
	}
	t := taken{queuesChanged: d.queues || all}
	t.fresh = d.all || d.queues || m.book.Changed() || len(d.nodes)+len(d.units)+len(d.pods) > 0
	t.priority, t.paused, t.shared = priorities(dereferenced(values(m.classes))), m.paused, m.shared
	t.leaving, t.gpus = ahead.leaving, m.gpus
	// 1. Nodes.
	if all {
		for name := range m.nodes {
			d.nodes[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		if n := m.nodes[name]; n != nil {
			t.nodes = append(t.nodes, m.gpus.StayingNode(n, m.signs, m.whole[name]...))
		} else if name != "" {
			t.nodesGone = append(t.nodesGone, name)
		}
	}
	// 2. Units.
	if t.tied = len(m.tied) > 0; t.tied != m.ties {
		m.ties, d.all = t.tied, true
	}
	if all || d.all {
		m.dirtyAll(&d, ahead)
	}
	m.dirtyByPorts(&d, t.nodes, t.nodesGone, ahead)
	for unit := range d.units {
		d.pods[unit] = true
		if p := m.pods[unit]; p != nil && unitOf(p) != unit {
			delete(d.units, unit)
			d.units[unitOf(p)], d.pods[unitOf(p)] = true, true
		}
	}
	for unit := range d.units {
		maps.Copy(d.pods, m.departed[unit])
		delete(m.departed, unit)
	}
	m.units(&t, slices.Sorted(maps.Keys(d.units)), ahead)
	t.about, t.claims = m.book.Take(all)
	t.anchors, t.asked = m.anchors.part(d.units), m.asked(d.units)
	for i := range t.pods {
		d.pods[t.pods[i].UID] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(d.pods)) {
		t.about = append(t.about, string(uid))
	}
	m.census(&t, &d, ahead, all)
	// 3. Queues.
	if t.queuesChanged {
		t.queues = manifest.Specs(dereferenced(values(m.queues)))
	}
	return t
}

// dirtyAll names every unit.
func (m *mirror) dirtyAll(d *dirt, ahead copied) {
	for uid := range m.gangs {
		d.units[uid] = true
	}
	for uid := range m.journal {
		d.units[uid] = true
	}
	for _, p := range ahead.placements {
		d.units[p.Spec.GangUID] = true
	}
	for _, p := range m.pods {
		d.units[unitOf(p)] = true
	}
}

// dirtyByPorts names the units on nodes of which it changed whether pods share
// their ports: what such units hold there is counted otherwise.
func (m *mirror) dirtyByPorts(d *dirt, nodes []scheduling.Node, gone []string, ahead copied) {
	changed := map[string]bool{}
	for _, n := range nodes {
		if shares := n.Ports != nil; shares != m.shared[n.Name] {
			m.shared[n.Name], changed[n.Name] = shares, true
		}
	}
	for _, name := range gone {
		if m.shared[name] {
			changed[name] = true
		}
		delete(m.shared, name)
	}
	if len(changed) == 0 {
		return
	}
	for _, placements := range []map[types.NamespacedName]*v1alpha1.Placement{m.placements, ahead.placements} {
		for _, p := range placements {
			if slices.ContainsFunc(p.Spec.Nodes, func(name string) bool { return changed[name] }) {
				d.units[p.Spec.GangUID] = true
			}
		}
	}
	for _, pods := range []map[types.UID]*corev1.Pod{m.pods, ahead.bindings} {
		for _, p := range pods {
			if changed[p.Spec.NodeName] {
				d.units[unitOf(p)] = true
			}
		}
	}
}

// units collects the objects of units.
func (m *mirror) units(t *taken, units []types.UID, ahead copied) {
	planned := map[types.UID][]*v1alpha1.Placement{}
	for _, p := range ahead.placements {
		planned[p.Spec.GangUID] = append(planned[p.Spec.GangUID], p)
	}
	add := func(p *corev1.Pod) {
		t.pods = append(t.pods, *ahead.asBound(p))
	}
	for _, uid := range units {
		if g := m.gangs[uid]; g != nil {
			t.gangs = append(t.gangs, *g)
		}
		for _, p := range m.journal[uid] {
			t.written = append(t.written, *p)
			if m.counts(p) {
				t.placements = append(t.placements, *p)
			}
		}
		for _, p := range planned[uid] {
			if !m.shows(p) {
				t.placements = append(t.placements, *p)
			}
		}
		for _, p := range m.members[uid] {
			add(p)
		}
		p := m.pods[uid]
		if p != nil {
			add(p)
		} else if m.gangs[uid] == nil {
			t.ended = append(t.ended, uid)
		}
	}
}

// shows reports that the watch showed a Placement that is assumed, and that
// counts.
func (m *mirror) shows(p *v1alpha1.Placement) bool {
	have := m.placements[keyOf(p)]
	return have != nil && m.counts(have) && have.Spec.GangUID == p.Spec.GangUID && have.Spec.Attempt == p.Spec.Attempt
}

// asBound is a pod as it is, or as it is assumed to be bound.
func (c copied) asBound(p *corev1.Pod) *corev1.Pod {
	if bound := c.bindings[p.UID]; bound != nil && p.Spec.NodeName == "" {
		return bound
	}
	return p
}

// byName orders names of objects.
func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// update turns what has changed into what the core is told.
func (t *taken) update(now time.Time) scheduling.Update {
	return scheduling.Update{
		Part: t.snapshot(now), NodesGone: t.nodesGone, QueuesChanged: t.queuesChanged, About: t.about,
	}
}

// dereferenced are the values behind pointers.
func dereferenced[T any](pointers []*T) []T {
	out := make([]T, len(pointers))
	for i := range pointers {
		out[i] = *pointers[i]
	}
	return out
}
