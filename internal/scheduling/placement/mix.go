package placement

import (
	"cmp"
	"maps"
	"slices"
)

// Mix learns what usually comes from what comes: how many of each kind of ask
// arrived lately. What has not come yet is assumed to be as the built-in
// workload says, for as much as a handful of arrivals count. The zero value has
// seen nothing. The order of arrivals between two lessons does not show.
type Mix struct {
	// counts are by kind, in parts of an arrival.
	counts map[string]*Weight
	// total is their sum, and taught what it was at the last lesson.
	total, taught int64
}

// Of a Mix.
const (
	// arrival is one arrival, in the parts in which they are counted: what is
	// halved again and again is not lost at once.
	arrival = 64
	// doubt is how many arrivals the built-in workload counts for: as many as
	// it takes to know better.
	doubt = 16
	// recent is after how many arrivals older ones count half.
	recent = 16_384
	// lesson is how much more must have arrived for another lesson to be worth
	// its cost: one part in so many.
	lesson = 8
	// mixKinds is how many kinds are kept: the most common.
	mixKinds = maxPatterns
)

// kindKey is the identity of what a Mix counts: equal for asks that mean the
// same to fragmentation.
func kindKey(a *Ask) (Ask, string) {
	k := Ask{MilliCPU: a.MilliCPU, MemoryBytes: a.MemoryBytes, GPUs: a.GPUs, ShareMilli: a.ShareMilli, ShareMiB: a.ShareMiB}
	if len(a.Models) > 0 {
		k.Models = slices.Clone(a.Models)
		slices.Sort(k.Models)
		k.Models = slices.Compact(k.Models)
	}
	return k, k.key()
}

// Note counts n arrivals of an ask. One that no cluster takes is left out.
func (m *Mix) Note(a *Ask, n int64) {
	if n > 0 && n <= MaxAmount/arrival {
		m.add(a, n*arrival)
	}
}

func (m *Mix) add(a *Ask, parts int64) {
	if a.Check() != nil {
		return
	}
	k, key := kindKey(a)
	if m.counts == nil {
		m.counts = map[string]*Weight{}
	}
	if m.counts[key] == nil {
		m.counts[key] = &Weight{Ask: k}
	}
	m.counts[key].Share += parts
	m.total += parts
}

// Due reports whether so much has arrived since the last lesson that another
// one is worth its cost.
func (m *Mix) Due() bool {
	return m.total-m.taught >= max(doubt*arrival/4, m.total/lesson)
}

// Halve makes all that arrived so far count half.
func (m *Mix) Halve() {
	m.total = 0
	for key, w := range m.counts {
		if w.Share /= 2; w.Share == 0 {
			delete(m.counts, key)
		}
		m.total += w.Share
	}
	m.taught /= 2
}

// Lesson is what usually comes, for [Cluster.SetWorkload].
func (m *Mix) Lesson() []Weight {
	for m.total > 2*recent*arrival {
		m.Halve()
	}
	m.taught = m.total
	out := m.Counts()
	for _, w := range DefaultWorkload() {
		// Its shares add up to 100.
		w.Share *= doubt * arrival
		out = append(out, w)
	}
	for i := range out[:len(out)-len(DefaultWorkload())] {
		out[i].Share *= 100
	}
	return out
}

// Counts are what was counted, the most common first, to be kept and given to
// another one with [Mix.Recall]. What is less common than mixKinds others is
// forgotten.
func (m *Mix) Counts() []Weight {
	keys := slices.SortedFunc(maps.Keys(m.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.counts[b].Share, m.counts[a].Share), cmp.Compare(a, b))
	})
	for _, key := range keys[min(mixKinds, len(keys)):] {
		m.total -= m.counts[key].Share
		delete(m.counts, key)
	}
	out := make([]Weight, 0, len(keys)+8)
	for _, key := range keys[:min(mixKinds, len(keys))] {
		out = append(out, *m.counts[key])
	}
	return out
}

// Recall counts again what another one had counted. What is out of range of it
// is left out.
func (m *Mix) Recall(counts []Weight) {
	for i := range counts[:min(mixKinds, len(counts))] {
		if w := &counts[i]; w.Share > 0 && w.Share <= 2*recent*arrival {
			m.add(&w.Ask, w.Share)
		}
	}
}
