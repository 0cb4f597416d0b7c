package scheduling

import "slices"

// futile reports that a search cannot find enough nodes, because one that asked
// for the same, and could have taken everybody whom this one may, has found too
// few: it was for work that is no longer, no less important and in the same
// queue. Nothing has changed since, for whatever is found begins a new list.
func (c *Core) futile(s *search) bool {
	return slices.ContainsFunc(c.inVain, func(before search) bool {
		return c.asMuch(before.wants, s.wants) && before.avoid == s.avoid && !before.entitled() && !s.entitled() &&
			before.need <= s.need && before.gain <= s.gain
	})
}

// asMuch reports that two entries ask for the same of nodes, and that the first
// may take the place of everybody of whom the second may, as far as that depends
// on who they are.
func (c *Core) asMuch(a, b *entry) bool {
	if !a.simple() || !b.simple() || a.req.extends != "" || b.req.extends != "" || a.asks[0] != b.asks[0] {
		return false
	}
	x, y := &a.req.Roles[0], &b.req.Roles[0]
	n := members(x)
	return n == members(y) && c.chunk(x, int(n)) == c.chunk(y, int(n)) && a.queue == b.queue && a.req.Priority >= b.req.Priority
}
