package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of the tables. They keep every sum within 64 bits.
const (
	// MaxDevices is how many devices one node may have.
	MaxDevices = 64
	// MaxNodes is how many nodes a cluster may have, those included that were
	// removed while something was held there.
	MaxNodes = 1 << 16
	// MaxAmount is the largest amount of anything on one node or in one ask.
	MaxAmount = 1 << 46
)

// NodeID is a node's row. It is stable while the node is known or anything is
// held there.
type NodeID int32

// NodeSpec is a node as its owner describes it.
type NodeSpec struct {
	Name                        string
	MilliCPU, MemoryBytes, Pods int64
	Other                       []Amount
	Devices                     []DeviceSpec
	// Domains is the node's place in the topology, widest first, such as
	// zone, rack, NVLink domain.
	Domains []string
	// Blocked nodes keep what they hold and are given nothing new.
	Blocked bool
	// Facts are the caller's (labels, taints); rules receive them.
	Facts any
}

// DeviceSpec is one GPU.
type DeviceSpec struct {
	// UUID is unique on its node.
	UUID  string
	Model string
	// MemoryMiB is 0 where it is not known.
	MemoryMiB int64
	// Link names the group of devices on the node that are joined by fast
	// links; devices of one group are preferred for one member. Empty: none.
	Link string
	// Blocked devices keep what they hold and are given to nothing new.
	Blocked bool
}

// Check says what is wrong with the description, by field.
func (s *NodeSpec) Check() error {
	var errs []error
	amount := func(field string, v int64) {
		if v < 0 || v > MaxAmount {
			errs = append(errs, fmt.Errorf("%s is %d; it must be from 0 to %d", field, v, int64(MaxAmount)))
		}
	}
	if s.Name == "" {
		errs = append(errs, errors.New("it has no name"))
	}
	amount("milliCPU", s.MilliCPU)
	amount("memoryBytes", s.MemoryBytes)
	amount("pods", s.Pods)
	for i, o := range s.Other {
		amount(o.Name, o.Value)
		if o.Name == "" {
			errs = append(errs, fmt.Errorf("other resource %d has no name", i))
		}
		if slices.ContainsFunc(s.Other[:i], func(p Amount) bool { return p.Name == o.Name }) {
			errs = append(errs, fmt.Errorf("other resource %q is given twice", o.Name))
		}
	}
	if len(s.Devices) > MaxDevices {
		errs = append(errs, fmt.Errorf("it has %d devices; at most %d are supported", len(s.Devices), MaxDevices))
	}
	for i, d := range s.Devices {
		amount("memoryMiB of device "+d.UUID, d.MemoryMiB)
		if d.UUID == "" {
			errs = append(errs, fmt.Errorf("device %d has no UUID", i))
		}
		if slices.ContainsFunc(s.Devices[:i], func(e DeviceSpec) bool { return e.UUID == d.UUID }) {
			errs = append(errs, fmt.Errorf("device %s is listed twice", d.UUID))
		}
	}
	return errors.Join(errs...)
}

// device is a row of a node's devices.
type device struct {
	free    int32 // milli
	model   int16
	link    int16 // 0: none
	blocked bool  // by its owner
	gone    bool  // no longer listed, but something is held on it
	freeMiB int64
	memory  int64 // MiB
}

// usable says whether anything new may be put on the device.
func (d *device) usable() bool { return !d.blocked && !d.gone }

// node is a row of the cluster.
type node struct {
	name    string
	spec    NodeSpec
	present bool
	blocked bool
	rank    int32 // position among the names, for ties
	seats   int32 // how many are held

	// version names this state of the row: no two states that differ ever
	// share one, and a state that Undo restores gets its old one back.
	version uint64
	// facts names what the owner said, for rules.
	facts uint64

	cpu, memory, pods int64
	other             []int64 // by resource; shorter than needed means 0
	devices           []device
	uuids             []string // by device
	usable            uint64   // mask of devices that may be used
	kinds             []int16  // the models of the usable devices, each once
	domains           []DomainID

	frag        int64 // of this version, under the workload of fragEpoch
	fragVersion uint64
	fragEpoch   uint32

	worth        int64 // likewise, for the policy Muster
	worthVersion uint64
	worthEpoch   uint32
}

// SetNode makes a node known, or replaces its description. What is held there
// stays held; devices are recognised by their UUID, and one that is no longer
// listed keeps its row until it is released. A description with less than what
// is held is accepted: nothing new fits until enough is released.
func (c *Cluster) SetNode(spec NodeSpec) (NodeID, error) {
	if err := spec.Check(); err != nil {
		return 0, fmt.Errorf("node %q: %w", spec.Name, err)
	}
	id, ok := c.byName[spec.Name]
	if !ok {
		var err error
		if id, err = c.newRow(spec.Name); err != nil {
			return 0, err
		}
	}
	n := &c.nodes[id]
	if err := n.roomForDevices(&spec); err != nil {
		return 0, fmt.Errorf("node %q: %w", spec.Name, err)
	}
	c.account(n, -1)
	n.cpu += spec.MilliCPU - n.spec.MilliCPU
	n.memory += spec.MemoryBytes - n.spec.MemoryBytes
	n.pods += spec.Pods - n.spec.Pods
	for _, o := range n.spec.Other {
		*n.otherAt(c.resource(o.Name)) -= o.Value
	}
	for _, o := range spec.Other {
		*n.otherAt(c.resource(o.Name)) += o.Value
	}
	c.setDevices(n, &spec)
	if !n.present || !slices.Equal(n.spec.Domains, spec.Domains) {
		c.leaveDomains(id)
		c.enterDomains(id, spec.Domains)
	}
	n.spec = spec
	n.present, n.blocked = true, spec.Blocked
	c.account(n, +1)
	c.clock++
	n.facts = c.clock
	c.touch(id)
	return id, nil
}

// roomForDevices says whether the new devices find rows beside those that are
// gone and still held.
func (n *node) roomForDevices(spec *NodeSpec) error {
	held := 0
	for i := range n.devices {
		listed := slices.ContainsFunc(spec.Devices, func(d DeviceSpec) bool { return d.UUID == n.uuids[i] })
		if !listed && n.devices[i].held() {
			held++
		}
	}
	if held+len(spec.Devices) > MaxDevices {
		return fmt.Errorf("%d devices are listed and %d more are still held; at most %d are supported together", len(spec.Devices), held, MaxDevices)
	}
	return nil
}

// held says whether anything is held on the device.
func (d *device) held() bool { return d.free != Whole || d.freeMiB != d.memory }

// setDevices matches the node's device rows with those described.
func (c *Cluster) setDevices(n *node, spec *NodeSpec) {
	for i := range n.devices {
		n.devices[i].gone = true
	}
	n.usable, n.kinds = 0, n.kinds[:0]
	links := make([]string, 0, 4)
	for _, d := range spec.Devices {
		at := slices.Index(n.uuids, d.UUID)
		if at < 0 {
			at = c.deviceRow(n, spec)
			n.uuids[at] = d.UUID
			n.devices[at] = device{free: Whole, freeMiB: d.MemoryMiB, memory: d.MemoryMiB}
		}
		row := &n.devices[at]
		row.gone, row.blocked = false, d.Blocked
		row.freeMiB += d.MemoryMiB - row.memory
		row.memory = d.MemoryMiB
		row.model = c.model(d.Model)
		row.link = 0
		if d.Link != "" {
			l := slices.Index(links, d.Link)
			if l < 0 {
				l, links = len(links), append(links, d.Link)
			}
			row.link = int16(l + 1)
		}
		if row.usable() {
			n.usable |= 1 << at
			if !slices.Contains(n.kinds, row.model) {
				n.kinds = append(n.kinds, row.model)
			}
		}
	}
}

// deviceRow is a row for a device that is new: one whose device is gone and
// held by nobody, or another.
func (c *Cluster) deviceRow(n *node, spec *NodeSpec) int {
	for i := range n.devices {
		listed := slices.ContainsFunc(spec.Devices, func(d DeviceSpec) bool { return d.UUID == n.uuids[i] })
		if n.devices[i].gone && !listed && !n.devices[i].held() {
			return i
		}
	}
	n.devices = append(n.devices, device{})
	n.uuids = append(n.uuids, "")
	return len(n.devices) - 1
}

// RemoveNode makes a node unknown: nothing new is placed there. Seats held
// there stay valid and are to be released as usual. It says whether the node
// was known.
func (c *Cluster) RemoveNode(name string) bool {
	id, ok := c.byName[name]
	if !ok || !c.nodes[id].present {
		return false
	}
	n := &c.nodes[id]
	c.account(n, -1)
	n.present = false
	c.leaveDomains(id)
	c.account(n, +1)
	c.clock++
	n.facts = c.clock
	c.touch(id)
	c.retire(id)
	return true
}

// retire frees the row of a node that is unknown and where nothing is held,
// unless an open mark might bring something back.
func (c *Cluster) retire(id NodeID) {
	n := &c.nodes[id]
	if n.present || n.seats > 0 || n.name == "" {
		return
	}
	if c.marks > 0 {
		c.retiring = append(c.retiring, id)
		return
	}
	at := int(n.rank)
	c.byRank = slices.Delete(c.byRank, at, at+1)
	c.rerank(at)
	delete(c.byName, n.name)
	*n = node{version: n.version, facts: n.facts, rank: -1}
	c.vacant = append(c.vacant, id)
}

// newRow gives a new name a row and its place among the names.
func (c *Cluster) newRow(name string) (NodeID, error) {
	var id NodeID
	if k := len(c.vacant); k > 0 {
		id = c.vacant[k-1]
		c.vacant = c.vacant[:k-1]
	} else {
		if len(c.nodes) >= MaxNodes {
			return 0, fmt.Errorf("node %q: the cluster has %d nodes already; no more are supported", name, MaxNodes)
		}
		id = NodeID(len(c.nodes))
		c.nodes = append(c.nodes, node{})
	}
	c.nodes[id].name = name
	c.nodes[id].spec = NodeSpec{Name: name}
	c.byName[name] = id
	at, _ := slices.BinarySearchFunc(c.byRank, name, func(o NodeID, name string) int {
		return strings.Compare(c.nodes[o].name, name)
	})
	c.byRank = slices.Insert(c.byRank, at, id)
	c.rerank(at)
	return id, nil
}

// rerank numbers the nodes from the given position on. The order among nodes
// that were there before does not change, so no tree becomes wrong by it.
func (c *Cluster) rerank(from int) {
	for i := from; i < len(c.byRank); i++ {
		c.nodes[c.byRank[i]].rank = int32(i)
	}
}

// otherAt is the node's amount of a resource.
func (n *node) otherAt(resource int) *int64 {
	for len(n.other) <= resource {
		n.other = append(n.other, 0)
	}
	return &n.other[resource]
}

// Node is the row of the node of that name, if it is known.
func (c *Cluster) Node(name string) (NodeID, bool) {
	id, ok := c.byName[name]
	return id, ok && c.nodes[id].present
}

// Name is the node's name.
func (c *Cluster) Name(id NodeID) string { return c.nodes[id].name }

// Spec is the node as last described. Its slices are not to be changed.
func (c *Cluster) Spec(id NodeID) NodeSpec { return c.nodes[id].spec }

// Nodes appends the rows of all known nodes, by name.
func (c *Cluster) Nodes(dst []NodeID) []NodeID {
	for _, id := range c.byRank {
		if c.nodes[id].present {
			dst = append(dst, id)
		}
	}
	return dst
}

// Free is what a node has left. Where less was described than is held, amounts
// are below zero.
type Free struct {
	MilliCPU, MemoryBytes, Pods int64
	Other                       []Amount
	// Devices are those that are described or held, in the order of their
	// rows.
	Devices []DeviceFree
}

// DeviceFree is what a device has left.
type DeviceFree struct {
	UUID, Model string
	Milli, MiB  int64
	// Usable is false where the device is blocked or no longer described.
	Usable bool
}

// Free is what the node has left.
func (c *Cluster) Free(id NodeID) Free {
	n := &c.nodes[id]
	f := Free{MilliCPU: n.cpu, MemoryBytes: n.memory, Pods: n.pods}
	for r, v := range n.other {
		if v != 0 {
			f.Other = append(f.Other, Amount{c.resources[r], v})
		}
	}
	slices.SortFunc(f.Other, func(a, b Amount) int { return strings.Compare(a.Name, b.Name) })
	for i := range n.devices {
		d := &n.devices[i]
		if d.gone && !d.held() {
			continue
		}
		f.Devices = append(f.Devices, DeviceFree{n.uuids[i], c.models[d.model].name, int64(d.free), d.freeMiB, d.usable()})
	}
	return f
}
