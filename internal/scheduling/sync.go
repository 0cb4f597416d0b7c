package scheduling

import (
	"reflect"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Sync makes the core agree with a snapshot: what is new or different is told
// to it, what is not there any more is dropped. What it decided and the
// snapshot does not show is taken back. It returns the snapshot's ledger.
func (c *Core) Sync(s Snapshot) *Ledger {
	c.setQueues(s.Queues)
	c.syncNodes(s.Nodes)
	c.SetQuotas(s.Quotas)
	about := make([]string, 0, len(c.entries)+len(s.Requests))
	for uid := range c.entries {
		about = append(about, uid)
	}
	return c.agree(s, about)
}

// setQueues replaces the queues if they are others.
func (c *Core) setQueues(specs []queue.Spec) {
	if !reflect.DeepEqual(c.specs, specs) {
		c.SetQueues(specs)
	}
}

// agree makes what is known of some requests and pods agree with a snapshot:
// of those that are named, and of all that the snapshot shows. It returns the
// snapshot's ledger.
func (c *Core) agree(s Snapshot, about []string) *Ledger {
	ledger := NewLedger(s)
	placed := placements(s)
	held := map[string][]Holding{}
	for _, h := range ledger.Holdings() {
		held[h.uid] = append(held[h.uid], h)
	}
	about = c.withWishes(everyone(about, s, held))
	// 1. Requests, and what became of those that are gone.
	present := make(map[string]bool, len(s.Requests))
	for i := range s.Requests {
		r := &s.Requests[i]
		if r.Finished && placed[r.UID] == nil {
			continue
		}
		present[r.UID] = true
		if e := c.entries[r.UID]; e == nil || e.source == nil || !e.source.same(r) {
			c.SetRequest(*r)
			own := *r
			c.entries[r.UID].source = &own
		}
	}
	c.wishes(&s, placed, present)
	for _, uid := range about {
		if !present[uid] && len(held[uid]) == 0 && placed[uid] == nil {
			c.Drop(uid)
		}
	}
	// 2. What is held, in a fixed order.
	for _, uid := range about {
		if len(held[uid]) > 0 && !c.settled(uid, held[uid], placed[uid]) && !c.shrunk(uid, held[uid], placed[uid]) {
			c.adopt(uid, held[uid], placed[uid])
		}
	}
	// 3. What is held no more. A placement of which all members have ended
	// holds nothing, and yet its request is not planned again.
	for _, uid := range about {
		e := c.entries[uid]
		if e != nil && len(held[uid]) == 0 && (e.placed || placed[uid] != nil) && !c.settled(uid, nil, placed[uid]) {
			c.adopt(uid, nil, placed[uid])
		}
	}
	// 4. What some could not be given when they were shown, and who holds devices
	// that have no name.
	c.retake()
	c.mend()
	c.settle()
	return ledger
}

// everyone are the UIDs that are named or shown, sorted, each once.
func everyone(about []string, s Snapshot, held map[string][]Holding) []string {
	for i := range s.Requests {
		about = append(about, s.Requests[i].UID)
	}
	for i := range s.Placements {
		about = append(about, s.Placements[i].UID)
	}
	for uid := range held {
		about = append(about, uid)
	}
	slices.Sort(about)
	return slices.Compact(about)
}

// settled reports that an entry holds what the ledger says already; it then
// notes when its work was saved.
func (c *Core) settled(uid string, holdings []Holding, p *Placement) bool {
	e := c.entries[uid]
	if e == nil || !e.placed || e.unseen || p == nil && len(holdings) == 0 || p != nil && e.attempt != p.Attempt {
		return false
	}
	if e.journalled != (p != nil) || !slices.EqualFunc(e.holdings, holdings, Holding.same) {
		return false
	}
	if p != nil {
		e.save(p.Saved)
	}
	return true
}

// syncNodes makes the nodes agree.
func (c *Core) syncNodes(nodes []Node) {
	present := make(map[string]bool, len(nodes))
	for i := range nodes {
		present[nodes[i].Name] = true
		if have := c.nodes[nodes[i].Name]; have == nil || !have.node.same(&nodes[i]) {
			c.SetNode(nodes[i])
		}
	}
	for _, name := range sortedKeys(c.nodes) {
		if !present[name] {
			c.DropNode(name)
		}
	}
}

// adopt makes what an entry holds agree with the ledger.
func (c *Core) adopt(uid string, holdings []Holding, p *Placement) {
	e := c.entries[uid]
	if e == nil {
		e = &entry{req: Request{Key: holdings[0].Key, UID: uid, Pod: holdings[0].Pod, claim: holdings[0].Claim}}
		c.entries[uid] = e
		c.enrol(e)
		c.learn(e)
	}
	if p != nil {
		e.save(p.Saved)
	}
	c.unordered(e, holdings)
	goesOn := e.placed && p != nil && e.attempt == p.Attempt
	if p == nil && len(holdings) > 0 {
		goesOn = e.placed && !e.journalled && e.since == holdings[0].Since
	}
	favoured, toldAt, late, after, lates := goesOn && e.favoured > 0, e.toldAt, e.late, e.after, e.lates
	c.free(e)
	c.remove(e)
	if len(holdings) == 0 && p == nil {
		c.insert(e)
		return
	}
	e.placed, e.unseen, e.journalled, e.holdings = true, false, p != nil, holdings
	if goesOn {
		e.toldAt, e.late, e.after, e.lates = toldAt, late, after, lates
	}
	switch {
	case p != nil:
		e.attempt, e.since = p.Attempt, p.Created
	default:
		e.since = holdings[0].Since
	}
	c.takeAll(e)
	if favoured {
		c.favour(e)
	}
	c.insertRunning(e)
}

// takeAll gives an entry all that it is known to hold.
func (c *Core) takeAll(e *entry) {
	for _, h := range e.holdings {
		before := len(e.held)
		c.take(e, Assignment{Role: h.Role, Index: h.Index, Node: h.Node, GPUs: h.GPUs, Share: h.Share}, h.Resources, h.Loose)
		if len(e.held) > before {
			c.enter(e, &e.held[before], &h)
			c.holdPorts(&e.held[before], h.Ports)
			c.holdPorts(&e.held[before], e.fixedPorts(&h))
			e.held[before].kin = kinOf(h.Namespace, h.Labels, h.Peers)
			c.shunners += truth(e.held[before].kin.shunning())
		}
	}
	if e.gpus == 0 {
		for i := range e.held {
			e.gpus += e.held[i].milli()
		}
	}
}

// fixedPorts are the node's ports that a member of a journalled plan uses
// beside the one that it was given: they are known from its role alone.
func (e *entry) fixedPorts(h *Holding) []int32 {
	if h.Pod {
		return nil
	}
	for i := range e.req.Roles {
		if e.req.Roles[i].Name == h.Role {
			return e.req.Roles[i].FixedPorts
		}
	}
	return nil
}
