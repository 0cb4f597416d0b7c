package scheduling

import "slices"

// Ended tells that a member of a placed request has ended and holds nothing any
// more, and nothing else. It costs next to nothing, however large the request.
// False: that is not all there is to it, and nothing was changed; the request is
// to be told as a whole then, with [Core.Apply].
func (c *Core) Ended(uid, role string, index int32) bool {
	e := c.entries[uid]
	if e == nil || !e.shrinks() || len(e.holdings) < 2 {
		return false
	}
	at := slices.IndexFunc(e.holdings, func(h Holding) bool { return h.Role == role && h.Index == index })
	if at < 0 || !c.letMember(e, role, index) {
		return false
	}
	e.holdings = slices.Delete(e.holdings, at, at+1)
	return true
}

// shrinks reports that what an entry holds may become less member by member,
// with nothing else to see to.
func (e *entry) shrinks() bool {
	return e.placed && e.journalled && !e.unseen && e.req.extends == "" && e.extras == 0 && len(e.lacks) == 0 &&
		len(e.req.Roles) == 0 && len(e.held) == len(e.holdings)
}

// letMember gives back what one member holds.
func (c *Core) letMember(e *entry, role string, index int32) bool {
	at := slices.IndexFunc(e.held, func(h held) bool { return h.role == role && h.index == index })
	if at < 0 {
		return false
	}
	c.release(e, &e.held[at])
	e.held = slices.Delete(e.held, at, at+1)
	return true
}

// shrunk makes what an entry holds less, if that is all that has changed.
func (c *Core) shrunk(uid string, holdings []Holding, p *Placement) bool {
	e := c.entries[uid]
	if e == nil || p == nil || !e.shrinks() || e.attempt != p.Attempt || len(holdings) >= len(e.holdings) {
		return false
	}
	var less []Holding
	rest := holdings
	for _, h := range e.holdings {
		if len(rest) > 0 && h.same(rest[0]) {
			rest = rest[1:]
		} else {
			less = append(less, h)
		}
	}
	if len(rest) > 0 {
		return false
	}
	for i := range less {
		c.letMember(e, less[i].Role, less[i].Index)
	}
	e.holdings = holdings
	e.save(p.Saved)
	return true
}
