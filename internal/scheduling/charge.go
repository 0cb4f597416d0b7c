package scheduling

import (
	"math/bits"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// SetQueues replaces the queues. Without any, everything is in the default
// queue. What is charged stays charged, also to a queue that is gone. It
// returns what is wrong with them; what is right of them is used all the same.
func (c *Core) SetQueues(specs []queue.Spec) []queue.Problem {
	c.specs = specs
	return c.rebuild()
}

// Recall brings back what was written down of the usage of queues and users. It
// is meant for a core that was shown everything for the first time.
func (c *Core) Recall(usage []queue.Recollection, users queue.Users, now Instant) {
	c.tree.Advance(int64(now))
	c.tree.RecallUsers(users)
	c.tree.Recall(usage)
}

// mostUsers is of how many users at most it is written down what they used
// lately: that of the others is taken for nobody's after a restart.
const mostUsers = 256

// Users is what users used lately, to be kept and given to another core with
// [Core.Recall].
func (c *Core) Users(now Instant) queue.Users {
	c.tree.Advance(int64(now))
	return c.tree.Users(mostUsers)
}

// rebuild makes the tree of queues anew, because the queues or the models of
// the nodes have changed, and enters again what is charged.
func (c *Core) rebuild() []queue.Problem {
	specs := c.specs
	options := queue.Options{Models: c.models}
	tree, problems := queue.Build(specs, options)
	// 1. A queue that is gone is kept while anything is charged to it.
	for _, e := range c.running {
		if _, there := tree.Find(e.req.Queue); !there && !e.lost && !c.free4all() &&
			!slices.ContainsFunc(specs, func(s queue.Spec) bool { return s.Name == e.req.Queue }) {
			specs = append(specs[:len(specs):len(specs)], queue.Spec{Name: e.req.Queue, Gone: true})
		}
	}
	if len(specs) > len(c.specs) {
		tree, _ = queue.Build(specs, options)
	}
	// 2. What was used is remembered, and what is held is charged anew: queues
	// may have other classes now, and work another queue.
	for _, e := range c.running {
		for i := range e.held {
			c.tree.Refund(e.queue, e.user, e.held[i].charged)
		}
	}
	tree.Carry(c.tree)
	c.tree = tree
	for _, uid := range sortedKeys(c.entries) {
		e := c.entries[uid]
		c.enrol(e)
		for i := range e.held {
			e.held[i].charged = c.charge(&e.held[i])
			c.tree.Charge(e.queue, e.user, e.held[i].charged)
		}
	}
	// 3. What there is to be had.
	c.have = tree.Classes().Zero()
	for _, s := range c.sites {
		if c.known(s) {
			c.stock(&s.node, +1)
		}
	}
	tree.SetCapacity(c.have)
	c.changed()
	return problems
}

// enrol finds the queue and the user of an entry in the tree.
func (c *Core) enrol(e *entry) {
	q, ok := c.tree.Find(e.req.Queue)
	if !ok {
		// It waits until the queue is made; what it holds meanwhile counts
		// where work without a queue does.
		q, _ = c.tree.Find(queue.Default)
	}
	e.queue, e.lost = q, !ok && !c.free4all()
	e.user = c.tree.User(e.req.User)
	if e.req.User != c.oneUser && len(c.entries) > 0 {
		c.manyUsers = c.manyUsers || c.oneUser != ""
		c.oneUser = e.req.User
	}
	e.ask = c.tree.Classes().Zero()
	for i := range e.req.Roles {
		r := &e.req.Roles[i]
		n := members(r)
		e.ask[queue.CPU] += max(0, r.Resources.MilliCPU) * n
		e.ask[queue.Memory] += max(0, r.Resources.Memory) * n
		model := ""
		if len(r.Models) == 1 {
			model = r.Models[0]
		}
		c.tree.Classes().AddGPUs(e.ask, model, c.milli(r)*n)
	}
}

// stock adds what a node has to what all have, or takes it away.
func (c *Core) stock(n *Node, sign int64) {
	c.have[queue.CPU] += sign * clamp(n.Allocatable.MilliCPU)
	c.have[queue.Memory] += sign * clamp(n.Allocatable.Memory)
	for i := range n.Devices {
		c.tree.Classes().AddGPUs(c.have, n.Devices[i].Model, sign*placement.Whole)
	}
}

// charge is what a member that holds something is charged with.
func (c *Core) charge(h *held) queue.Vector {
	v := c.tree.Classes().Zero()
	v[queue.CPU], v[queue.Memory] = max(0, h.resources.MilliCPU), max(0, h.resources.Memory)
	for _, s := range h.seats {
		for d := s.Devices; d != 0; d &= d - 1 {
			c.tree.Classes().AddGPUs(v, c.deviceModel(h.site, bits.TrailingZeros64(d)), int64(s.Milli))
		}
	}
	return v
}

// deviceModel is the model of a row of a node's devices.
func (c *Core) deviceModel(s *site, row int) string {
	devices := c.cluster.Spec(s.id).Devices
	if row < len(devices) {
		return devices[row].Model
	}
	return ""
}

// admits reports whether an entry's queue, and the quotas of its namespace, may
// take what it asks for.
func (c *Core) admits(e *entry) bool {
	if e.lost || c.overQuota(e) != nil {
		return false
	}
	if c.free4all() {
		return true
	}
	block, ok := c.tree.Admit(e.queue, e.ask)
	// What the nodes have in all is for placement to say.
	return ok || block.Rule == queue.RuleCapacity
}

// admitsSeats reports the same of the seats that were found for it, of which
// the GPU models are known.
func (c *Core) admitsSeats(f *fit) bool {
	if c.free4all() {
		return true
	}
	sum := c.tree.Classes().Zero()
	for i := range f.held {
		for class, amount := range c.charge(&f.held[i]) {
			sum[class] += amount
		}
	}
	block, ok := c.tree.Admit(f.entry.queue, sum)
	return ok || block.Rule == queue.RuleCapacity
}

// barred reports that an entry may not start whatever others give back: its
// queue does not exist or is stopped, or it asks for more than there will ever
// be for it.
func (c *Core) barred(e *entry) bool {
	if c.free4all() {
		return false
	}
	if e.lost {
		return true
	}
	c.blocks = c.tree.Blocks(e.queue, e.ask, c.blocks[:0])
	return slices.ContainsFunc(c.blocks, func(b queue.Block) bool {
		return b.Rule == queue.RuleGone || b.Rule == queue.RuleStopped || e.ask[b.Class] > b.Allowed
	})
}

// free4all reports that no queue is configured: the default queue owns
// everything, and nothing has to be admitted.
func (c *Core) free4all() bool { return len(c.specs) == 0 }

// turns returns the waiting entries one by one, in the order of their turns,
// which what was charged meanwhile decides.
func (c *Core) turns() func() *entry {
	if c.free4all() && !c.manyUsers {
		all, next := c.considered(), 0
		return func() *entry {
			if next == len(all) {
				return nil
			}
			next++
			return all[next-1]
		}
	}
	all := c.considered()
	line := c.tree.Line()
	for i, e := range all {
		if e.lost {
			continue
		}
		line.Add(queue.Entry{Ref: i, Queue: e.queue, User: e.user, Priority: e.req.Priority, Created: e.turn(), Ask: e.ask})
	}
	return func() *entry {
		if next, ok := line.Next(); ok {
			return all[next.Ref]
		}
		return nil
	}
}

// turn orders an entry among those of its user: the shorter work, by class,
// then the older, by milliseconds.
func (e *entry) turn() int64 { return int64(e.length)<<48 | int64(max(0, e.created())/1_000_000) }
