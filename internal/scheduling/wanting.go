package scheduling

import (
	"fmt"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Wanting are those of what waits that would start if nodes came, by UID, in the
// same order: what they ask for is not there or not free, and their queues may
// take it, those before them included. Waiting is what Reasons has just returned.
//
// Pods that are in no gang are not among them: they are seen as waiting by
// themselves. What others are to make room for, or what is kept free for
// somebody, needs no nodes.
func (c *Core) Wanting(waiting []Waiting) []string {
	var out []string
	var lent []*entry
	for i := range waiting {
		w := &waiting[i]
		e := c.entries[w.UID]
		if w.Pod || e == nil || !moreNodesHelp(w.Reason) || c.forbids(e) {
			continue
		}
		out = append(out, w.UID)
		if c.tree.Charge(e.queue, e.user, e.ask) {
			lent = append(lent, e)
		}
	}
	for _, e := range slices.Backward(lent) {
		c.tree.Refund(e.queue, e.user, e.ask)
	}
	return out
}

// moreNodesHelp reports whether a reason is lack of nodes.
func moreNodesHelp(r Reason) bool {
	switch r.(type) {
	case NoNodes, NoNodeAllows, NoSuchModel, TooLarge, ShortOfGPUs, ShortOfResource, Scattered:
		return true
	}
	return false
}

// forbids reports whether an entry's queue, or one above it, may not take what it
// asks for however many nodes there are.
func (c *Core) forbids(e *entry) bool {
	if c.free4all() {
		return false
	}
	if e.lost {
		return true
	}
	c.blocks = c.tree.Blocks(e.queue, e.ask, c.blocks[:0])
	return slices.ContainsFunc(c.blocks, func(b queue.Block) bool {
		return b.Rule != queue.RuleCapacity && b.Rule != queue.RuleReserved
	})
}

// AskedText says that nodes were asked for.
func AskedText(members int32) string {
	if members == 1 {
		return "asked for a node for its one member"
	}
	return fmt.Sprintf("asked for nodes for its %d members", members)
}
