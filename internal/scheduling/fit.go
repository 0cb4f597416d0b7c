package scheduling

import (
	"hash/fnv"
	"sort"
)

// room is what is left on one node.
type room struct {
	node  *Node
	free  Resources
	gpus  []*Device
	ports map[int32]bool
}

// copy returns a room that can be filled without changing this one.
func (r *room) copy() *room {
	ports := make(map[int32]bool, len(r.ports)+8)
	for p := range r.ports {
		ports[p] = true
	}
	return &room{node: r.node, free: r.free, gpus: append([]*Device{}, r.gpus...), ports: ports}
}

// house is what is left everywhere, the nodes in the order of their names.
type house struct {
	rooms []*room
}

// newHouse subtracts what the ledger holds from what the nodes have.
func newHouse(nodes []Node, l *Ledger) *house {
	h := &house{}
	byName := map[string]*room{}
	for i := range nodes {
		n := &nodes[i]
		r := &room{node: n, free: n.Allocatable, ports: map[int32]bool{}}
		for d := range n.Devices {
			if _, held := l.devices[n.Devices[d].UUID]; !held && n.Devices[d].usable() {
				r.gpus = append(r.gpus, &n.Devices[d])
			}
		}
		sort.Slice(r.gpus, func(i, j int) bool { return r.gpus[i].Index < r.gpus[j].Index })
		byName[n.Name] = r
		h.rooms = append(h.rooms, r)
	}
	sort.Slice(h.rooms, func(i, j int) bool { return h.rooms[i].node.Name < h.rooms[j].node.Name })
	for _, held := range l.holdings {
		r := byName[held.Node]
		if r == nil {
			continue
		}
		r.free = r.free.minus(held.Resources)
		for _, p := range held.Ports {
			r.ports[p] = true
		}
	}
	return h
}

// trial fills rooms for one request; nothing of it counts before commit.
type trial struct {
	house   *house
	rooms   map[int]*room
	request *Request
	cursor  int32
}

func (h *house) try(req *Request) *trial {
	return &trial{house: h, rooms: map[int]*room{}, request: req, cursor: portStart(req)}
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

// room returns the room as the trial sees it.
func (t *trial) room(i int) *room {
	if r, touched := t.rooms[i]; touched {
		return r
	}
	return t.house.rooms[i]
}

// take returns the room for changing.
func (t *trial) take(i int) *room {
	if _, touched := t.rooms[i]; !touched {
		t.rooms[i] = t.house.rooms[i].copy()
	}
	return t.rooms[i]
}

// commit makes the trial count.
func (t *trial) commit() {
	for i, r := range t.rooms {
		t.house.rooms[i] = r
	}
}

// fit plans the whole request on what is left, or returns nil. Roles that the
// fewest devices can serve go first; if that leaves no room for the rest, the
// largest go first.
func (h *house) fit(req *Request) ([]Assignment, *trial) {
	for _, order := range [][]int{h.scarceFirst(req), largestFirst(req)} {
		t := h.try(req)
		placed := make([][]Assignment, len(req.Roles))
		whole := true
		for _, i := range order {
			if placed[i] = t.role(&req.Roles[i]); placed[i] == nil {
				whole = false
				break
			}
		}
		if !whole {
			continue
		}
		var out []Assignment
		for _, list := range placed {
			out = append(out, list...)
		}
		t.address(out)
		if out = t.withPorts(out); out != nil {
			return out, t
		}
	}
	return nil, nil
}

// role places all members of one role, or returns nil. Members that are done
// are left without a node; address gives them one.
func (t *trial) role(r *Role) []Assignment {
	out := make([]Assignment, 0, r.Replicas)
	allowed := make([]bool, len(t.house.rooms))
	for i, room := range t.house.rooms {
		allowed[i] = room.node.refuses(*r) == ""
	}
	for index := range r.Replicas {
		if r.done(index) {
			out = append(out, Assignment{Role: r.Name, Index: index})
			continue
		}
		best := t.best(r, allowed)
		if best.room < 0 {
			return nil
		}
		room := t.take(best.room)
		room.free = room.free.minus(r.Resources)
		for _, p := range r.FixedPorts {
			room.ports[p] = true
		}
		out = append(out, Assignment{Role: r.Name, Index: index, Node: room.node.Name, GPUs: room.takeGPUs(best.model, r.GPUs)})
	}
	return out
}

// takeGPUs takes the first n devices of a model.
func (r *room) takeGPUs(model string, n int32) []string {
	if n == 0 {
		return nil
	}
	var taken []string
	rest := r.gpus[:0:0]
	for _, d := range r.gpus {
		if int32(len(taken)) < n && d.is(model) {
			taken = append(taken, d.UUID)
			continue
		}
		rest = append(rest, d)
	}
	r.gpus = rest
	return taken
}

// address gives the members that are done the first node of the plan: their
// peers still need an address in the table, but they hold nothing there.
func (t *trial) address(out []Assignment) {
	first := ""
	for _, a := range out {
		if a.Node != "" {
			first = a.Node
			break
		}
	}
	if first == "" && len(t.house.rooms) > 0 {
		first = t.house.rooms[0].node.Name
	}
	for i := range out {
		if out[i].Node == "" {
			out[i].Node = first
		}
	}
}

// withPorts gives every member of a gang a port of its own where its node
// shares its ports, or returns nil if there are too few.
func (t *trial) withPorts(out []Assignment) []Assignment {
	if t.request.Pod {
		return out
	}
	byName := map[string]int{}
	for i, r := range t.house.rooms {
		byName[r.node.Name] = i
	}
	for i := range out {
		at, known := byName[out[i].Node]
		if !known || t.house.rooms[at].node.Ports == nil {
			continue
		}
		port, ok := t.port(t.take(at))
		if !ok {
			return nil
		}
		out[i].Port = port
	}
	return out
}

// port takes the next free port of the room after the last one taken.
func (t *trial) port(r *room) (int32, bool) {
	ports := *r.node.Ports
	for range ports.size() {
		p := ports.First + t.cursor%ports.size()
		t.cursor = (t.cursor + 1) & 0x7fffffff
		if !r.ports[p] {
			r.ports[p] = true
			return p, true
		}
	}
	return 0, false
}

// scarceFirst orders roles by how many devices could serve them, then by
// size.
func (h *house) scarceFirst(req *Request) []int {
	serve := make([]int, len(req.Roles))
	for i, r := range req.Roles {
		for _, room := range h.rooms {
			for _, d := range room.gpus {
				if r.accepts(*d) {
					serve[i]++
				}
			}
		}
	}
	order := largestFirst(req)
	sort.SliceStable(order, func(a, b int) bool {
		i, j := order[a], order[b]
		if gi, gj := req.Roles[i].GPUs > 0, req.Roles[j].GPUs > 0; gi != gj {
			return gi
		}
		return serve[i] < serve[j]
	})
	return order
}

// largestFirst orders roles by GPUs, CPU and memory of a member.
func largestFirst(req *Request) []int {
	order := make([]int, len(req.Roles))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool {
		i, j := &req.Roles[order[a]], &req.Roles[order[b]]
		switch {
		case i.GPUs != j.GPUs:
			return i.GPUs > j.GPUs
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
