package scheduling

import (
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Of what is learned about what usually comes.
const (
	// mostAlike is for how many arrivals a role counts at most: one huge gang is
	// not a thousand users.
	mostAlike = 64
	// halfLife is after how long arrivals count half, and fewOf how many members
	// must have arrived by then for any of them to.
	halfLife = 14 * 24 * estimate.Hour
	// turnover is which part of all GPUs changes hands before it is looked at
	// anew what is scarce.
	turnover = 100
)

// usual is what a core knows of what usually comes, and by when what is scarce
// was looked at.
type usual struct {
	mix placement.Mix
	// newest is when the latest of what was counted was made, and known what
	// that was when it was recalled: what is not later was counted before.
	newest, known Instant
	// halvedAt is when what had come until then was made to count half.
	halvedAt Instant
	// weighed is true once it was looked at what is scarce; planned is how many
	// milli GPUs were planned since, and free how many were free then.
	weighed       bool
	planned, free int64
}

// Mix is what was learned about what usually comes, to be kept and given to
// another core with [Core.RecallMix]. Its fields are for encoding/json, which
// writes equal ones as equal bytes.
type Mix struct {
	// Newest is when the latest of what was counted was made, and HalvedAt when
	// what had come until then was made to count half, in nanoseconds.
	Newest   Instant `json:"newest,omitempty"`
	HalvedAt Instant `json:"halvedAt,omitempty"`
	// Kinds are the counts, in sixty-fourths of a member, the most common first.
	Kinds []MixKind `json:"kinds,omitempty"`
}

// MixKind is how often members of a kind came.
type MixKind struct {
	MilliCPU    int64    `json:"milliCPU,omitempty"`
	MemoryBytes int64    `json:"memoryBytes,omitempty"`
	GPUs        int      `json:"gpus,omitempty"`
	ShareMilli  int64    `json:"shareMilli,omitempty"`
	ShareMiB    int64    `json:"shareMiB,omitempty"`
	Models      []string `json:"models,omitempty"`
	Count       int64    `json:"count"`
}

// Mix returns what was learned about what usually comes.
func (c *Core) Mix() Mix {
	out := Mix{Newest: c.usual.newest, HalvedAt: c.usual.halvedAt}
	for _, w := range c.usual.mix.Counts() {
		a := &w.Ask
		out.Kinds = append(out.Kinds, MixKind{
			MilliCPU: a.MilliCPU, MemoryBytes: a.MemoryBytes, GPUs: a.GPUs,
			ShareMilli: a.ShareMilli, ShareMiB: a.ShareMiB, Models: a.Models, Count: w.Share,
		})
	}
	return out
}

// RecallMix brings back what another core had learned about what usually comes.
// It is meant for a core that was told of nothing yet: what it is told of then
// and was made before counts no second time.
func (c *Core) RecallMix(m Mix) {
	counts := make([]placement.Weight, 0, len(m.Kinds))
	for _, k := range m.Kinds {
		counts = append(counts, placement.Weight{Share: k.Count, Ask: placement.Ask{
			MilliCPU: k.MilliCPU, MemoryBytes: k.MemoryBytes, GPUs: k.GPUs,
			ShareMilli: k.ShareMilli, ShareMiB: k.ShareMiB, Models: k.Models,
		}})
	}
	c.usual.mix.Recall(counts)
	c.usual.newest, c.usual.known, c.usual.halvedAt = m.Newest, m.Newest, m.HalvedAt
}

// meet counts what a request asks for among what usually comes, once: as soon
// as that is known and it could be honoured.
func (c *Core) meet(e *entry) {
	r := &e.req
	if e.met || len(r.Roles) == 0 || r.extends != "" || r.Unsupported != "" || r.Refused != "" || r.Missing != "" {
		return
	}
	e.met = true
	if r.Created <= c.usual.known && c.usual.known != 0 {
		return
	}
	c.usual.newest = max(c.usual.newest, r.Created)
	for i := range r.Roles {
		ask := c.cluster.Ask(e.asks[i])
		c.usual.mix.Note(&ask, min(mostAlike, int64(r.Roles[i].Replicas)))
	}
}

// heed lets what is placed from now on leave on the nodes what is of use to
// what usually comes, and spare what is scarce. It costs nothing unless that
// has changed enough.
func (c *Core) heed(now Instant) {
	u := &c.usual
	switch {
	case u.halvedAt == 0:
		u.halvedAt = now
	case now.since(u.halvedAt) >= halfLife:
		u.halvedAt = now
		u.mix.Halve()
	}
	free := c.cluster.Totals().FreeMilli
	all := c.cluster.Totals().Devices * placement.Whole
	switch {
	case all == 0:
		return
	case u.mix.Due():
		// The only errors are of what no ask is.
		_ = c.cluster.SetWorkload(u.mix.Lesson())
	case !u.weighed || (u.planned+max(free-u.free, u.free-free))*turnover >= all:
		c.cluster.Weigh()
	default:
		return
	}
	u.weighed, u.planned, u.free = true, 0, free
}
