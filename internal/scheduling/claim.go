package scheduling

import (
	"cmp"
	"slices"
)

// claim finds, in each namespace that has quotas, for whom its share of them is
// kept: of those that have waited beyond their patience the most important,
// then the oldest, if it could start at all. What ends there then adds up for
// it, where small ones would take it again for ever.
func (c *Core) claim(now Instant) {
	c.claims = nil
	if len(c.quotas) == 0 {
		return
	}
	var list []*entry
	for _, e := range c.waiting {
		if e.dueAt <= now && c.quotas[e.req.Namespace] != nil && !e.req.Pod && !c.barred(e) && c.mayClaim(e, now) {
			list = append(list, e)
		}
	}
	c.judge(list)
	slices.SortFunc(list, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.req.Priority, a.req.Priority), cmp.Compare(a.created(), b.created()), a.before(b))
	})
	for _, e := range list {
		if !e.possible || c.claims[e.req.Namespace] != nil {
			continue
		}
		if c.claims == nil {
			c.claims = map[string]*entry{}
		}
		c.claims[e.req.Namespace] = e
	}
}

// mayClaim reports that nothing is in an entry's way but what others have, and
// that its quotas would allow it if they had nothing.
func (c *Core) mayClaim(e *entry, now Instant) bool {
	if reason := notNow(&e.req, now); reason != nil && !barred(reason) {
		return false
	}
	for _, q := range c.quotas[e.req.Namespace] {
		for i := range q.Terms {
			if need := q.need(&e.req, q.Terms[i].Resource); need > 0 && (q.Terms[i].Uncounted || need > q.Terms[i].Hard) {
				return false
			}
		}
	}
	return true
}

// claimed is how much of a quota is kept from an entry, and for whom.
func (c *Core) claimed(q *quota, resource string, from *entry) (int64, Key) {
	e := c.claims[q.Namespace]
	if e == nil || e.placed || e.req.UID == from.req.UID || from.req.Priority > e.req.Priority || c.nominated(e) {
		return 0, Key{}
	}
	if need := q.need(&e.req, resource); need > 0 {
		return need, e.req.Key
	}
	return 0, Key{}
}
