package scheduling

import "encoding/binary"

// Result is what a decision comes to: for every request that is not placed and
// not finished, a plan or a reason.
type Result struct {
	// Plans are to be journalled, in the order in which they were made.
	Plans []Plan
	// Evictions are what is to be stopped so that others can start.
	Evictions []Eviction
	// Growths are further replicas of elastic gangs that are placed, each to be
	// journalled by itself.
	Growths []Growth
	// GiveBacks are replicas of elastic gangs that are to be given back.
	GiveBacks []GiveBack
	// Waiting are the others, in their order.
	Waiting []Waiting
}

// Decide plans every request that fits, in order, on what is left by all that
// is held and by the plans before it, and says why the others wait. It changes
// nothing in the snapshot.
func Decide(s Snapshot) Result { return NewCore(Options{}).Pass(s) }

// Pass makes the core agree with a snapshot, decides, and says why what waits
// does. While starting is paused nothing is planned and nothing evicted.
func (c *Core) Pass(s Snapshot) Result {
	c.Sync(s)
	var result Result
	if s.Paused == "" {
		result = c.Decide(s.Now)
	}
	result.Waiting = c.Reasons(s.Now, s.Paused)
	return result
}

// inFull is for how many waiting requests the whole reason is worked out in a
// pass. Those behind them share the reason of the first that asks for the same
// in the same queue.
const inFull = 32

// Reasons says why what waits does: the more important first, then the shorter,
// then the older. It is meant to be asked after Decide, and costs what all that
// waits and all nodes cost. Paused is as in [Snapshot].
func (c *Core) Reasons(now Instant, paused string) []Waiting {
	var out []Waiting
	var left *house
	alike := map[string]Reason{}
	for i, e := range c.considered() {
		if e.req.extends != "" {
			continue // it is placed, and waits for a part of it
		}
		reason := c.notNow(e, now)
		switch {
		case reason != nil:
		case paused != "":
			reason = Paused{Words: paused}
		default:
			key := e.likeness()
			if c.shunners > 0 || e.req.peers() {
				key += "/" + e.req.UID
			}
			if i >= inFull && alike[key] != nil {
				reason = alike[key]
				break
			}
			if left == nil {
				left = c.house()
			}
			reason = c.reason(e, now, left)
			alike[key] = reason
		}
		out = append(out, e.req.waiting(reason))
	}
	return out
}

// likeness is equal for entries that ask for the same in the same queue.
func (e *entry) likeness() string {
	key := make([]byte, 0, 64)
	key = append(key, e.req.Queue...)
	key = append(key, '/')
	key = append(key, e.req.Topology.Within...)
	key = append(key, byte(truth(e.req.Topology.Required)))
	for i, k := range e.asks {
		key = binary.AppendVarint(key, int64(k))
		key = binary.AppendVarint(key, members(&e.req.Roles[i]))
		if s := e.req.Roles[i].Spread; s.Over != "" {
			key = append(append(key, s.Over...), byte(truth(s.Required)))
		}
		for _, p := range e.req.Roles[i].FixedPorts {
			key = binary.AppendVarint(key, int64(p))
		}
	}
	return string(key)
}

// load tells a new core all that is in a snapshot.
func load(s Snapshot) *Core {
	c := NewCore(Options{})
	for _, e := range s.Ended {
		c.Observe(e.Evidence, e.Ran)
	}
	c.RecallMix(s.Mix)
	c.Sync(s)
	c.Recall(s.Usage, s.Users, s.Now)
	c.heed(s.Now)
	c.claim(s.Now)
	return c
}

func (r *Request) waiting(reason Reason) Waiting {
	return Waiting{Key: r.Key, UID: r.UID, Pod: r.Pod, Reason: reason, Asked: r.Asked}
}

// placements returns the newest placement of each request, without those that
// extend one.
func placements(s Snapshot) map[string]*Placement {
	out := map[string]*Placement{}
	for i := range s.Placements {
		p := &s.Placements[i]
		if p.Extends {
			continue
		}
		if have := out[p.UID]; have == nil || have.Attempt < p.Attempt {
			out[p.UID] = p
		}
	}
	return out
}

// notNow returns why a request is not to be planned whatever is free, or nil.
func notNow(req *Request, now Instant) Reason {
	switch {
	case req.Suspended:
		return Suspended{}
	case req.Draining:
		return Draining{}
	case req.Unsupported != "":
		return Unsupported{Words: req.Unsupported}
	case req.Refused != "":
		return Refused{Words: req.Refused}
	case req.Missing != "":
		return Missing{Words: req.Missing}
	case req.NotBefore > now:
		return CoolingOff{Until: req.NotBefore, After: req.LastEnd}
	}
	return nil
}
