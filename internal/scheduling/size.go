package scheduling

import "fmt"

// Size is how many members an elastic gang that is placed has, and why not more.
type Size struct {
	// Has is how many members have a place and stay; Least is with how many the
	// gang starts, and Most how many it may have.
	Has, Least, Most int32
	// Leaving is how many were told to make room.
	Leaving int32
	// Why is why it is not given another one; nil if every member that is not
	// done has a place, or none is to be given.
	Why Reason
}

// Render puts it into words.
func (s Size) Render(clock Clock) string {
	text := fmt.Sprintf("%d of %d..%d", s.Has, s.Least, s.Most)
	if s.Leaving > 0 {
		text += fmt.Sprintf("; %d more make room for others", s.Leaving)
	}
	if s.Why != nil {
		text += "; for another one: " + s.Why.Render(clock)
	}
	return text
}

// sizeOfGang describes a placed entry; nil unless it is elastic.
func (c *Core) sizeOfGang(e *entry, now Instant) *Size {
	s, some := Size{}, false
	for i := range e.req.Roles {
		r := &e.req.Roles[i]
		some = some || r.elastic()
		s.Most += r.Replicas
		s.Least += r.Replicas
		if r.elastic() {
			s.Least += r.Min - r.Replicas
		}
	}
	if !some {
		return nil
	}
	s.Has = int32(e.staying())
	s.Leaving = int32(len(e.held)) - s.Has
	if e.req.Grows {
		s.Why = c.whyNoMore(e, now)
	}
	return &s
}

// whyNoMore is why a placed entry is not given another member; nil if there is
// none to be given.
func (c *Core) whyNoMore(e *entry, now Instant) Reason {
	if e.req.NotBefore > now {
		return CoolingOff{Until: e.req.NotBefore}
	}
	if wish := c.entries[wishOf(e.req.UID)]; wish != nil && !wish.placed {
		return c.reason(wish, now, nil)
	}
	for i := range e.req.Roles {
		index, ok := e.nextIndex(&e.req.Roles[i])
		if !ok || !e.req.Roles[i].elastic() {
			continue
		}
		one := c.oneMore(e, i, index)
		one.req.Draining = false
		c.enrol(one)
		return c.reason(one, now, nil)
	}
	return nil
}
