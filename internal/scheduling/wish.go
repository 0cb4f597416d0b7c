package scheduling

import (
	"maps"
	"slices"
)

// wishOf is the UID under which what a placed gang is entitled to, and does not
// have, waits.
func wishOf(uid string) string { return uid + "+" }

// wishes makes the wishes of placed elastic gangs agree with a snapshot: a gang
// of which fewer members have a place than its minimum, or than are left to do,
// is entitled to as many more. They wait like any other request, and their
// patience begins when they are first seen. What was planned for one is shown
// by the snapshot, or taken back.
func (c *Core) wishes(s *Snapshot, placed map[string]*Placement, present map[string]bool) {
	journal := journals(s, placed)
	for i := range s.Requests {
		r := &s.Requests[i]
		e := c.entries[r.UID]
		if e == nil || e.source == nil || journal[r.UID] == nil {
			continue
		}
		var live map[string]int32
		e.busy, live = read(journal[r.UID], placed[r.UID].Attempt)
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

// withWishes adds, to UIDs, those of the wishes of the gangs among them.
func (c *Core) withWishes(uids []string) []string {
	for _, uid := range uids {
		if wish := wishOf(uid); c.entries[wish] != nil {
			uids = append(uids, wish)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// journals are all placements of each gang that is placed and elastic.
func journals(s *Snapshot, placed map[string]*Placement) map[string][]*Placement {
	var out map[string][]*Placement
	for i := range s.Requests {
		if r := &s.Requests[i]; len(r.Roles) > 0 && placed[r.UID] != nil {
			if out == nil {
				out = map[string][]*Placement{}
			}
			out[r.UID] = []*Placement{}
		}
	}
	if out == nil {
		return nil
	}
	for i := range s.Placements {
		p := &s.Placements[i]
		if list, some := out[p.UID]; some {
			out[p.UID] = append(list, p)
		}
	}
	return out
}

// read finds which members have a place in the journal of an attempt, and
// counts, by role, those that hold it and were not ordered back.
func read(journal []*Placement, attempt int32) (busy map[memberKey]bool, live map[string]int32) {
	busy, live = map[memberKey]bool{}, map[string]int32{}
	for _, p := range journal {
		if p.Attempt != attempt {
			continue
		}
		for i := range p.Members {
			m := &p.Members[i]
			busy[memberKey{role: m.Role, index: m.Index}] = true
			if !m.Released && !p.Leaving {
				live[m.Role]++
			}
		}
	}
	return busy, live
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

// knowsWish reports that what is known of a placed gang's journal, and of what
// it is entitled to, agrees with a snapshot.
func (c *Core) knowsWish(e *entry, journal []*Placement, attempt int32, now Instant) bool {
	busy, live := read(journal, attempt)
	if !maps.Equal(e.busy, busy) {
		return false
	}
	want, some := e.wish(live, now)
	have := c.entries[wishOf(e.req.UID)]
	if !some || have == nil {
		return some == (have != nil)
	}
	want.Created = have.req.Created
	return !have.placed && have.req.same(&want)
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
