package scheduling

import (
	"fmt"
	"reflect"
	"slices"
)

// Update is what has changed since a core was told last.
type Update struct {
	// Part shows the nodes that are new or different, and all that there is of
	// the requests and pods that About names. Its queues and quotas count if they
	// changed.
	Part Snapshot
	// NodesGone are the names of nodes that are no more.
	NodesGone []string
	// QueuesChanged is true if Part has the queues, and QuotasChanged if it has
	// the quotas: also if they are the same, once anything was planned that they
	// count.
	QueuesChanged, QuotasChanged bool
	// About are the UIDs of the requests and pods of which anything may have
	// changed: what Part does not show of them is no more. A gang and the pods
	// of its members are named together, and everything that was planned since
	// the last update is named.
	About []string
	// GrowFrom is the time from which members beyond a minimum are added; 0: any time.
	GrowFrom Instant
}

// Apply tells the core what has changed: afterwards it is as if it had been
// shown the whole snapshot with [Core.Sync]. It costs what has changed.
func (c *Core) Apply(u Update) {
	c.growFrom = u.GrowFrom
	if u.QueuesChanged {
		c.setQueues(u.Part.Queues)
	}
	if u.QuotasChanged {
		c.SetQuotas(u.Part.Quotas)
	}
	for i := range u.Part.Nodes {
		n := &u.Part.Nodes[i]
		if have := c.nodes[n.Name]; have == nil || !have.node.same(n) {
			c.SetNode(*n)
		}
	}
	for _, name := range u.NodesGone {
		c.DropNode(name)
	}
	c.agree(u.Part, u.About)
}

// mend gives entries what they hold and could not be given when they were
// shown: a node or a device is known by now, or free. Where more is held of a
// device than there is, which only happens if something else gave it out, it is
// given in the order of UIDs, in whatever order all that was shown.
func (c *Core) mend() {
	// Whoever gives something up may make room for one after it.
	for range len(c.lacking) {
		var again []*entry
		for _, uid := range sortedKeys(c.lacking) {
			e := c.entries[uid]
			for _, w := range e.lacks {
				again = append(again, c.contested(e, w)...)
			}
		}
		if again == nil {
			return
		}
		slices.SortFunc(again, byUID)
		again = slices.Compact(again)
		for _, e := range again {
			c.giveUp(e)
		}
		for _, e := range again {
			c.takeAll(e)
		}
	}
}

// contested are an entry and those after it that were given of what it lacks;
// none where it cannot be given more than it was.
func (c *Core) contested(e *entry, w want) []*entry {
	s := c.nodes[w.node]
	switch {
	case s == nil:
		return nil
	case w.uuid == "":
		return []*entry{e}
	case s.node.device(w.uuid) < 0:
		return nil
	}
	mark := c.cluster.Mark()
	defer c.cluster.Undo(mark)
	out := []*entry{e}
	for _, o := range s.here {
		if byUID(e, o) < 0 && c.letGo(o, s, w.uuid) {
			out = append(out, o)
		}
	}
	if _, free := c.seatOn(s.id, w.uuid, w.share); !free {
		return nil
	}
	return out
}

// letGo releases what an entry was given of a device; false if that is nothing.
func (c *Core) letGo(e *entry, s *site, uuid string) bool {
	some := false
	for i := range e.held {
		if e.held[i].site != s {
			continue
		}
		for _, seat := range e.held[i].seats {
			if slices.Contains(c.cluster.SeatDevices(seat, nil), uuid) {
				c.cluster.Release(seat)
				some = true
			}
		}
	}
	return some
}

// Differences are what [Core.Sync] would have to change for the core to agree
// with a snapshot, in words, at most so many; none if it agrees.
func (c *Core) Differences(s Snapshot, most int) []string {
	var out []string
	say := func(format string, args ...any) {
		if len(out) < most {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if !reflect.DeepEqual(c.specs, s.Queues) {
		say("the queues are others")
	}
	if !reflect.DeepEqual(c.quotaList(), sortedQuotas(s.Quotas)) {
		say("the quotas are others")
	}
	names := make(map[string]bool, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		names[n.Name] = true
		if have := c.nodes[n.Name]; have == nil {
			say("node %s is not known", n.Name)
		} else if !have.node.same(n) {
			say("node %s is different", n.Name)
		}
	}
	for _, name := range sortedKeys(c.nodes) {
		if !names[name] {
			say("node %s is no more", name)
		}
	}
	c.differences(s, say)
	return out
}

// quotaList are the quotas, in order.
func (c *Core) quotaList() []Quota {
	var out []Quota
	for _, list := range c.quotas {
		for _, q := range list {
			out = append(out, q.Quota)
		}
	}
	return sortedQuotas(out)
}

func sortedQuotas(list []Quota) []Quota {
	out := append([]Quota{}, list...)
	slices.SortFunc(out, func(a, b Quota) int { return compareKeys(a.Key, b.Key) })
	return out
}

// differences compares requests and what is held.
func (c *Core) differences(s Snapshot, say func(string, ...any)) {
	placed, held, shown := placements(s), map[string][]Holding{}, map[string]*Request{}
	for _, h := range NewLedger(s).Holdings() {
		held[h.uid] = append(held[h.uid], h)
	}
	for i := range s.Requests {
		if r := &s.Requests[i]; !r.Finished || placed[r.UID] != nil {
			shown[r.UID] = r
		}
	}
	journal := journals(&s, placed)
	about := make([]string, 0, len(c.entries))
	for uid := range c.entries {
		about = append(about, uid)
	}
	for _, uid := range everyone(about, s, held) {
		e, r, p := c.entries[uid], shown[uid], placed[uid]
		switch {
		case e == nil && (r != nil || len(held[uid]) > 0):
			say("%s is not known", uid)
		case e == nil:
		case e.req.extends != "":
			if journal[e.req.extends] == nil {
				say("%s (%s) wants what nobody is to have", uid, e.req.Key)
			}
		case r == nil && len(held[uid]) == 0 && p == nil:
			say("%s (%s) is no more", uid, e.req.Key)
		case r != nil && (e.source == nil || !e.source.same(r)):
			say("%s (%s) is different", uid, e.req.Key)
		case e.placed != (p != nil || len(held[uid]) > 0):
			say("%s (%s) is placed: %t here", uid, e.req.Key, e.placed)
		case e.placed && (e.journalled != (p != nil) || p != nil && (e.attempt != p.Attempt || e.saved != p.Saved)):
			say("%s (%s) has another placement", uid, e.req.Key)
		case e.placed && !slices.EqualFunc(e.holdings, held[uid], Holding.same):
			say("%s (%s) holds something else: %+v, %+v", uid, e.req.Key, e.holdings, held[uid])
		case journal[uid] != nil && !c.knowsWish(e, journal[uid], placed[uid].Attempt, s.Now):
			say("%s (%s) is entitled to something else", uid, e.req.Key)
		}
	}
}
