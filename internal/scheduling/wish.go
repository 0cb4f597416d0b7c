package scheduling

import "slices"

// wishOf is the UID under which what a placed gang is entitled to, and does not
// have, waits.
func wishOf(uid string) string { return uid + "+" }

// wishes makes the wishes of placed elastic gangs agree with a snapshot: a gang
// of which fewer members have a place than its minimum, or than are left to do,
// is entitled to as many more. They wait like any other request, and their
// patience begins when they are first seen. What was planned for one is shown
// by the snapshot, or taken back.
func (c *Core) wishes(s *Snapshot, placed map[string]*Placement, present map[string]bool) {
	if !slices.ContainsFunc(s.Requests, func(r Request) bool { return r.Grows }) {
		return
	}
	journalled := map[string][]*Placement{}
	for i := range s.Placements {
		p := &s.Placements[i]
		journalled[p.UID] = append(journalled[p.UID], p)
	}
	for i := range s.Requests {
		r := &s.Requests[i]
		e := c.entries[r.UID]
		if e == nil || e.source == nil || len(r.Roles) == 0 || placed[r.UID] == nil {
			continue
		}
		live := e.read(journalled[r.UID], placed[r.UID].Attempt)
		want, some := e.wish(live, s.Now)
		uid := wishOf(r.UID)
		have := c.entries[uid]
		if have != nil {
			c.free(have)
			want.Created = have.req.Created
		}
		if !some {
			continue // it is dropped with all that is not present
		}
		present[uid] = true
		if have == nil || !have.req.same(&want) {
			c.SetRequest(want)
		} else {
			c.insert(have)
		}
	}
}

// read notes which members have a place in the journal of an attempt, and
// counts, by role, those that hold it and were not ordered back.
func (e *entry) read(journal []*Placement, attempt int32) map[string]int32 {
	live := map[string]int32{}
	e.busy = map[memberKey]bool{}
	for _, p := range journal {
		if p.Attempt != attempt {
			continue
		}
		for i := range p.Members {
			m := &p.Members[i]
			e.busy[memberKey{role: m.Role, index: m.Index}] = true
			if !m.Released && !p.Leaving {
				live[m.Role]++
			}
		}
	}
	return live
}

// wish is what an entry that is placed is entitled to and does not have.
func (e *entry) wish(live map[string]int32, now Instant) (Request, bool) {
	w := e.req
	w.UID, w.extends = wishOf(e.req.UID), e.req.UID
	w.Created, w.Grows, w.Draining, w.Roles = now, false, false, nil
	if !e.req.Grows {
		return w, false
	}
	for i := range e.req.Roles {
		r := e.req.Roles[i]
		short := int32(members(&r)) - live[r.Name]
		if !r.elastic() || short <= 0 {
			continue
		}
		r.Done = nil
		for index := range r.Replicas {
			if e.req.Roles[i].done(index) || e.busy[memberKey{role: r.Name, index: index}] {
				r.Done = append(r.Done, index)
			}
		}
		r.Min = min(short, r.Replicas-int32(len(r.Done)))
		if r.Min > 0 {
			w.Roles = append(w.Roles, r)
		}
	}
	return w, len(w.Roles) > 0
}

// planWish plans what a placed gang is entitled to, as further replicas of it.
func (c *Core) planWish(f *fit, now Instant, result *Result) {
	of := c.entries[f.entry.req.extends]
	for _, a := range f.keep(now) {
		held := slices.ContainsFunc(f.entry.held, func(h held) bool { return h.role == a.Role && h.index == a.Index })
		if of != nil && held {
			result.Growths = append(result.Growths, Growth{Key: of.req.Key, UID: of.req.UID, Attempt: of.attempt, Member: a})
		}
	}
}
