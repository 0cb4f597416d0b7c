package scheduling

import (
	"reflect"
	"slices"
)

// Sync makes the core agree with a snapshot: what is new or different is told
// to it, what is not there any more is dropped. What it decided and the
// snapshot does not show is taken back. It returns the snapshot's ledger.
func (c *Core) Sync(s Snapshot) *Ledger {
	if !reflect.DeepEqual(c.specs, s.Queues) {
		c.SetQueues(s.Queues)
	}
	c.syncNodes(s.Nodes)
	c.SetQuotas(s.Quotas)
	ledger := NewLedger(s)
	placed := placements(s)
	held := map[string][]Holding{}
	for _, h := range ledger.Holdings() {
		held[h.uid] = append(held[h.uid], h)
	}
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
			c.entries[r.UID].source = r
		}
	}
	c.wishes(&s, placed, present)
	for _, uid := range chosen(c.entries, func(uid string, _ *entry) bool {
		return !present[uid] && len(held[uid]) == 0 && placed[uid] == nil
	}) {
		c.Drop(uid)
	}
	// 2. What is held, in a fixed order.
	for _, uid := range chosen(held, func(uid string, h []Holding) bool { return !c.settled(uid, h, placed[uid]) }) {
		c.adopt(uid, held[uid], placed[uid])
	}
	// 3. What is held no more. A placement of which all members have ended
	// holds nothing, and yet its request is not planned again.
	for _, uid := range chosen(c.entries, func(uid string, e *entry) bool {
		return len(held[uid]) == 0 && (e.placed || placed[uid] != nil) && !c.settled(uid, nil, placed[uid])
	}) {
		c.adopt(uid, nil, placed[uid])
	}
	// 4. What found a device held by one that has given it back since.
	for _, uid := range chosen(c.entries, func(_ string, e *entry) bool { return e.crowded }) {
		c.adopt(uid, held[uid], placed[uid])
		c.entries[uid].crowded = false
	}
	return ledger
}

// chosen are the keys that are wanted, sorted.
func chosen[V any](m map[string]V, wanted func(string, V) bool) []string {
	var out []string
	for key, value := range m {
		if wanted(key, value) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// settled reports that an entry holds what the ledger says already; it then
// notes when its work was saved.
func (c *Core) settled(uid string, holdings []Holding, p *Placement) bool {
	e := c.entries[uid]
	if e == nil || !e.placed || e.unseen || p == nil && len(holdings) == 0 || p != nil && e.attempt != p.Attempt {
		return false
	}
	back := slices.ContainsFunc(e.absent, func(node string) bool { return c.nodes[node] != nil })
	if back || !slices.EqualFunc(e.holdings, holdings, Holding.same) {
		return false
	}
	if p != nil {
		e.saved = p.Saved
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
		e = &entry{req: Request{Key: holdings[0].Key, UID: uid, Pod: holdings[0].Pod}}
		c.entries[uid] = e
		c.enrol(e)
	}
	if p != nil {
		e.saved = p.Saved
	}
	c.unordered(e, holdings)
	favoured := e.favoured > 0 && p != nil && e.attempt == p.Attempt
	c.free(e)
	c.remove(e)
	e.crowded = false
	if len(holdings) == 0 && p == nil {
		c.insert(e)
		return
	}
	e.placed, e.unseen, e.holdings = true, false, holdings
	switch {
	case p != nil:
		e.attempt, e.since = p.Attempt, p.Created
	default:
		e.since = holdings[0].Since
	}
	for _, h := range holdings {
		before := len(e.held)
		c.take(e, Assignment{Role: h.Role, Index: h.Index, Node: h.Node, GPUs: h.GPUs, Share: h.Share}, h.Resources)
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
	if favoured {
		c.favour(e)
	}
	at, found := slices.BinarySearchFunc(c.running, e, byUID)
	if !found {
		c.running = slices.Insert(c.running, at, e)
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
