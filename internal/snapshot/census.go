package snapshot

import (
	"maps"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/scheduling"
)

// census collects all that quotas count in the namespaces where anything of it
// changed. It costs what there is in these namespaces, if they have quotas.
func (m *mirror) census(t *taken, d *dirt, ahead copied, all bool) {
	for i := range t.gangs {
		d.spaces[t.gangs[i].Namespace] = true
	}
	for i := range t.placements {
		d.spaces[t.placements[i].Namespace] = true
	}
	for i := range t.pods {
		d.spaces[t.pods[i].Namespace] = true
	}
	t.censuses = map[string]*world{}
	for _, key := range slices.SortedFunc(maps.Keys(m.quotas), byName) {
		if !all && !d.spaces[key.Namespace] {
			continue
		}
		d.spaces[key.Namespace] = true
		if t.censuses[key.Namespace] == nil {
			t.censuses[key.Namespace] = &world{priority: t.priority, shared: m.shared, leaving: ahead.leaving, given: m.book.In(key.Namespace), byClaims: m.book.Gives()}
		}
		w := t.censuses[key.Namespace]
		w.quotas = append(w.quotas, *m.quotas[key])
	}
	t.spaces = slices.Sorted(maps.Keys(d.spaces))
	if len(t.censuses) == 0 {
		return
	}
	for _, g := range m.gangs {
		if w := t.censuses[g.Namespace]; w != nil {
			w.gangs = append(w.gangs, *g)
		}
	}
	for _, p := range m.placements {
		if w := t.censuses[p.Namespace]; w != nil && m.counts(p) {
			w.placements = append(w.placements, *p)
		}
	}
	for _, p := range ahead.placements {
		if w := t.censuses[p.Namespace]; w != nil && !m.shows(p) {
			w.placements = append(w.placements, *p)
		}
	}
	for _, p := range m.pods {
		if w := t.censuses[p.Namespace]; w != nil {
			w.pods = append(w.pods, *ahead.asBound(p))
		}
	}
}

// countQuotas works out anew what is used of the quotas of the namespaces where
// anything changed, and returns all of them; false if there are none and were
// none.
func (l *Loop) countQuotas(t *taken, now time.Time) ([]scheduling.Quota, bool) {
	some := len(l.quotas) > 0
	for _, name := range t.spaces {
		w := t.censuses[name]
		if w == nil {
			delete(l.quotas, name)
			delete(l.headcounts, name)
			continue
		}
		if l.headcounts[name] == nil {
			l.headcounts[name] = &headcount{gpus: l.options.GPUResources}
		}
		l.headcounts[name].begin()
		w.counted, w.learn, w.mine = l.headcounts[name].role, t.learn, t.mine
		l.quotas[name] = w.snapshot(now).Quotas
	}
	var out []scheduling.Quota
	for _, name := range slices.Sorted(maps.Keys(l.quotas)) {
		out = append(out, l.quotas[name]...)
	}
	return out, some || len(l.quotas) > 0
}
