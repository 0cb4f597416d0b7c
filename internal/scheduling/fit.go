package scheduling

import (
	"hash/fnv"
	"slices"
	"sort"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// fit is one attempt to place a whole request. What it takes is held at once,
// under a mark of the cluster, and given back unless it is kept.
type fit struct {
	core  *Core
	entry *entry
	// avoid are the nodes that are not to be used.
	avoid *placement.NodeSet
	// domain is where all members are to be. What is to be spread as far as
	// there is room is so if evenly is true.
	domain placement.DomainID
	evenly bool
	held   []held
	// shunning is true once something is held whose rules keep others off;
	// domains are those that a role with rules may be in, by level.
	shunning bool
	domains  map[Level][]placement.DomainID
	mark     placement.Mark
}

// place places all members of an entry on what is free outside the nodes to
// avoid, or nothing. What it takes is held until keep or back.
func (c *Core) place(e *entry, avoid *placement.NodeSet) (*fit, bool) {
	c.denied = false
	if c.cannotFit(e, avoid) {
		return nil, false
	}
	if e.req.anywhere() {
		return c.placeIn(e, avoid, placement.NoDomain, false)
	}
	return c.placeByTopology(e, avoid)
}

// placeIn is place in one domain, with roles spread as far as there is room, or
// not.
func (c *Core) placeIn(e *entry, avoid *placement.NodeSet, domain placement.DomainID, evenly bool) (*fit, bool) {
	orders := [2][]int{c.scarceFirst(e, domain), largestFirst(&e.req)}
	for i, order := range orders {
		if i == 1 && slices.Equal(order, orders[0]) {
			break
		}
		f := &fit{core: c, entry: e, avoid: avoid, domain: domain, evenly: evenly, mark: c.cluster.Mark()}
		if f.all(order) && f.whole() {
			return f, true
		}
		f.back()
	}
	return nil, false
}

// whole gives the members that were placed their ports, and reports that the
// queue allows what they got.
func (f *fit) whole() bool {
	if !f.ports() {
		return false
	}
	if !f.core.admitsSeats(f) {
		f.core.denied = true
		return false
	}
	return true
}

// cannotFit says, without looking at nodes, that the request has no room.
func (c *Core) cannotFit(e *entry, avoid *placement.NodeSet) bool {
	scope := placement.Scope{Avoid: avoid}
	c.wants = c.wants[:0]
	for i := range e.asks {
		n := members(&e.req.Roles[i])
		if n > 0 && c.cluster.CannotFit(e.asks[i], int(n), scope) {
			return true
		}
		c.wants = append(c.wants, placement.Want{Class: e.asks[i], N: int(n)})
	}
	// Several roles may each have room, and not all together.
	return len(c.wants) > 1 && c.cluster.CannotFitAll(c.wants)
}

// all places all roles, in this order.
func (f *fit) all(order []int) bool {
	for _, i := range order {
		if !f.role(i) {
			return false
		}
	}
	return true
}

// role places the members of one role that are not done, as many together on
// a node as there is room for: half as many where all of them find none, and
// so on.
func (f *fit) role(i int) bool {
	r := &f.entry.req.Roles[i]
	todo := r.todo()
	if f.tied(r) {
		f.domains = nil
		if len(r.Peers) > 0 {
			return f.amongPeers(i, todo)
		}
		outer := f.avoid
		f.avoid = f.closedBy(r)
		defer func() { f.avoid = outer }()
	}
	if r.Spread.Over != "" && (r.Spread.Required || f.evenly) {
		outer := f.avoid
		f.avoid = f.besides(r)
		defer func() { f.avoid = outer }()
		return f.spread(r, f.entry.asks[i], todo)
	}
	return f.pack(r, i, todo)
}

// todo are the members of a role that are to be placed.
func (r *Role) todo() []int32 {
	var todo []int32
	for index := range r.Replicas {
		if !r.done(index) {
			todo = append(todo, index)
		}
	}
	return todo[:members(r)]
}

// pack places members of a role, with this number, as many together on a node
// as there is room for.
func (f *fit) pack(r *Role, i int, todo []int32) bool {
	chunk := f.core.chunk(r, len(todo))
	for len(todo) > 0 {
		chunk = min(chunk, len(todo))
		if chunk == 1 {
			if !f.members(r, f.entry.asks[i], todo[:1]) {
				return false
			}
			todo = todo[1:]
			continue
		}
		if f.together(r, f.entry.asks[i], todo[:chunk]) {
			todo = todo[chunk:]
			continue
		}
		chunk = (chunk + 1) / 2
	}
	return true
}

// chunk is how many members of a role are tried together at first: as many as
// the node with the most devices could have. Members without GPUs are placed
// one by one, and so are those that like some nodes better, and those that need
// ports of the node, of which no two fit on one.
func (c *Core) chunk(r *Role, n int) int {
	if r.GPUs == 0 || len(r.FixedPorts) > 0 || r.Spread.Required || len(r.Prefers) > 0 || c.softTaints > 0 {
		return 1
	}
	return max(1, min(n, c.largest/int(r.GPUs)))
}

// together places several members on the node that is best for all of them.
func (f *fit) together(r *Role, one placement.Class, todo []int32) bool {
	all := f.core.ask(r, int64(len(todo)))
	id, ok := f.core.cluster.Best(all, placement.Scope{Domain: f.domain, Avoid: f.avoid})
	if !ok {
		return false
	}
	for _, index := range todo {
		seat, ok := f.core.cluster.PlaceOn(one, id)
		if !ok {
			// Not one of them has another model's GPUs, so this cannot be.
			return false
		}
		f.hold(r, index, seat)
	}
	return true
}

// members places members one by one.
func (f *fit) members(r *Role, class placement.Class, todo []int32) bool {
	for _, index := range todo {
		avoid := f.avoid
		if len(r.FixedPorts) > 0 {
			avoid = f.core.busy(r.FixedPorts, avoid)
		}
		seat, ok := f.core.cluster.Place(class, placement.Scope{Domain: f.domain, Avoid: avoid})
		if !ok {
			return false
		}
		f.hold(r, index, seat)
	}
	return true
}

func (f *fit) hold(r *Role, index int32, seat placement.Seat) {
	h := held{role: r.Name, index: index, site: f.core.sites[seat.Node], seats: []placement.Seat{seat}, resources: r.Resources, kin: kinOf(f.entry.req.Namespace, r.Labels, r.Peers)}
	f.shunning = f.shunning || h.kin.shunning()
	f.core.holdPorts(&h, r.FixedPorts)
	f.held = append(f.held, h)
}

// busy are the nodes to avoid and those where one of the ports is taken.
func (c *Core) busy(ports []int32, avoid *placement.NodeSet) *placement.NodeSet {
	out := &placement.NodeSet{}
	for _, s := range c.sites {
		if !c.known(s) {
			continue
		}
		taken := avoid.Has(s.id)
		for _, p := range ports {
			taken = taken || s.ports[p] > 0
		}
		if taken {
			out.Add(s.id)
		}
	}
	return out
}

// nodes are those on which anything was taken.
func (f *fit) nodes() []placement.NodeID {
	var out []placement.NodeID
	for i := range f.held {
		if id := f.held[i].site.id; !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// back gives back all that was taken.
func (f *fit) back() {
	for i := range f.held {
		f.held[i].freePorts()
	}
	f.held = nil
	f.core.cluster.Undo(f.mark)
}

func (h *held) freePorts() {
	for _, p := range h.ports {
		if h.site.ports[p]--; h.site.ports[p] <= 0 {
			delete(h.site.ports, p)
		}
	}
	h.ports = nil
}

// keep makes what was taken the entry's, and returns it as assignments, in the
// order of roles and indices.
func (f *fit) keep(now Instant) []Assignment {
	e, c := f.entry, f.core
	c.cluster.Keep(f.mark)
	c.remove(e)
	e.placed, e.unseen, e.since, e.saved = true, true, now, 0
	e.attempt = e.req.Attempt + 1
	for _, h := range f.held {
		c.join(e, h)
	}
	c.insertRunning(e)
	return f.assignments()
}

// assignments are what was taken. Members that are done are given an address
// on the first node of the plan, and hold nothing there.
func (f *fit) assignments() []Assignment {
	byMember := make(map[memberKey]*held, len(f.held))
	first := ""
	for i := range f.held {
		byMember[memberKey{role: f.held[i].role, index: f.held[i].index}] = &f.held[i]
	}
	var out []Assignment
	for i := range f.entry.req.Roles {
		r := &f.entry.req.Roles[i]
		for index := range r.Replicas {
			a := Assignment{Role: r.Name, Index: index}
			h := byMember[memberKey{role: r.Name, index: index}]
			if h == nil && r.elastic() {
				continue // it is not of the minimum, and nobody looks for it
			}
			if h != nil {
				a.Node = h.site.node.Name
				if len(h.ports) > len(r.FixedPorts) {
					a.Port = h.ports[len(h.ports)-1]
				}
				if r.wantsGPU() {
					a.GPUs, a.Share = f.core.cluster.SeatDevices(h.seats[0], nil), given(h.seats[0], r)
				}
				if first == "" {
					first = a.Node
				}
			}
			out = append(out, a)
		}
	}
	f.address(out, first)
	return out
}

// address gives the members that are done a node, and a port where their peers
// would look for one.
func (f *fit) address(out []Assignment, first string) {
	if first == "" {
		first = f.core.firstNode()
	}
	for i := range out {
		if out[i].Node == "" {
			out[i].Node = first
		}
	}
	if f.entry.req.Pod {
		return
	}
	cursor := portStart(&f.entry.req)
	used := map[int32]bool{}
	for _, a := range out {
		if a.Node == first {
			used[a.Port] = true
		}
	}
	s := f.core.nodes[first]
	if s == nil || s.node.Ports == nil {
		return
	}
	for i := range out {
		if out[i].Port != 0 || out[i].Node != first {
			continue
		}
		if p, ok := s.port(&cursor, used); ok {
			out[i].Port, used[p] = p, true
		}
	}
}

// firstNode is the node whose name sorts first; empty if there is none.
func (c *Core) firstNode() string {
	first := ""
	for name := range c.nodes {
		if first == "" || name < first {
			first = name
		}
	}
	return first
}

// ports gives every member of a gang a port of its own where its node shares
// its ports.
func (f *fit) ports() bool {
	if f.entry.req.Pod {
		return true
	}
	cursor := portStart(&f.entry.req)
	for i := range f.held {
		h := &f.held[i]
		if h.site.node.Ports == nil {
			continue
		}
		p, ok := h.site.port(&cursor, nil)
		if !ok {
			return false
		}
		f.core.holdPorts(h, []int32{p})
	}
	return true
}

// port is the next port of the node that is free, after the last one taken.
func (s *site) port(cursor *int32, used map[int32]bool) (int32, bool) {
	ports := *s.node.Ports
	for range ports.size() {
		p := ports.First + *cursor%ports.size()
		*cursor = (*cursor + 1) & 0x7fffffff
		if s.ports[p] == 0 && !used[p] {
			return p, true
		}
	}
	return 0, false
}

// portStart is where the search for ports begins: a place of the request's
// own, moved on with every attempt, so that a port that the node refused is
// not offered again at once.
func portStart(req *Request) int32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(req.UID))
	var members uint32
	for _, r := range req.Roles {
		members += uint32(r.Replicas)
	}
	return int32((sum.Sum32() + uint32(req.Attempt)*members) & 0x7fffffff)
}

// scarceFirst orders roles by how many members of each would find room alone
// in the domain, those with GPUs first, then by size.
func (c *Core) scarceFirst(e *entry, domain placement.DomainID) []int {
	order := largestFirst(&e.req)
	if len(order) == 1 {
		return order
	}
	room := make([]int, len(e.asks))
	for i, k := range e.asks {
		room[i] = c.cluster.Room(k, placement.Scope{Domain: domain}, 1<<20)
	}
	sort.SliceStable(order, func(a, b int) bool {
		i, j := order[a], order[b]
		if gi, gj := e.req.Roles[i].wantsGPU(), e.req.Roles[j].wantsGPU(); gi != gj {
			return gi
		}
		return room[i] < room[j]
	})
	return order
}

// largestFirst orders roles by GPUs, CPU and memory of a member.
func largestFirst(req *Request) []int {
	order := make([]int, len(req.Roles))
	for i := range order {
		order[i] = i
	}
	if len(order) == 1 {
		return order
	}
	sort.SliceStable(order, func(a, b int) bool {
		i, j := &req.Roles[order[a]], &req.Roles[order[b]]
		switch {
		case i.GPUs != j.GPUs:
			return i.GPUs > j.GPUs
		case i.Share.Milli != j.Share.Milli:
			return i.Share.Milli > j.Share.Milli
		case i.Share.MiB != j.Share.MiB:
			return i.Share.MiB > j.Share.MiB
		case i.Resources.MilliCPU != j.Resources.MilliCPU:
			return i.Resources.MilliCPU > j.Resources.MilliCPU
		}
		return i.Resources.Memory > j.Resources.Memory
	})
	return order
}

// accepts reports whether a device's model will do for the role.
func (r *Role) accepts(d Device) bool {
	if len(r.Models) == 0 {
		return true
	}
	for _, m := range r.Models {
		if d.is(m) {
			return true
		}
	}
	return false
}
