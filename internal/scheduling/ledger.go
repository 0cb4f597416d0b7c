package scheduling

import (
	"sort"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Holding is what one member or pod holds on one node.
type Holding struct {
	// Key names the gang, or the pod that is in none.
	Key
	// Pod is true for a pod that is in no gang's journal, and Claim as well where the
	// holder is a claim that Muster did not allocate.
	Pod, Claim bool
	// Role and Index are the member's place in the gang.
	Role  string
	Index int32
	// Node is where it is.
	Node string
	// Since is when it began.
	Since Instant
	// GPUs are the UUIDs of the GPUs it holds; Share is how much of the one,
	// where that is not all.
	GPUs  []string
	Share Share
	// Loose is how many more it holds of a node that counts its GPUs.
	Loose int32
	// Ports are the node's ports it holds.
	Ports []int32
	// Resources is what it holds beside GPUs.
	Resources Resources
	// Labels and Peers are for rules about where others are.
	Labels map[string]string
	Peers  []Peers
	// Extra is true for a replica beyond the minimum of an elastic gang, and
	// Leaving once it was ordered back. Both are true for a gang's pod that the
	// journal does not count any more: it is gone, and not yet seen to be.
	Extra, Leaving bool
	// journal is the UID of the journal's entry of a replica beyond the minimum;
	// empty while it is only assumed.
	journal string
	// uid is the UID of the gang, or of the pod.
	uid string
}

// Ledger is the sum of what is held: every member of every placement that has
// not ended, and every pod beside them. It has no memory of its own.
type Ledger struct {
	holdings []Holding
	devices  map[deviceKey][]int
	// memory is the size of each device's memory, in MiB; 0: not known.
	memory map[deviceKey]int64
}

// deviceKey names a device among those of all nodes.
type deviceKey struct{ node, uuid string }

// memberKey names a member of a gang's life.
type memberKey struct {
	gang  string
	role  string
	index int32
}

// NewLedger adds up what the snapshot's placements and pods hold. A member's
// pod is counted with its placement, once; a pod that the journal does not
// know, or no longer counts, counts by itself until it has ended.
func NewLedger(s Snapshot) *Ledger {
	l := &Ledger{devices: map[deviceKey][]int{}, memory: map[deviceKey]int64{}}
	for i := range s.Nodes {
		for _, d := range s.Nodes[i].Devices {
			l.memory[deviceKey{s.Nodes[i].Name, d.UUID}] = d.MemoryMiB
		}
	}
	counted := map[memberKey]bool{}
	for _, p := range s.Placements {
		for _, m := range p.Members {
			if m.Released {
				continue
			}
			counted[memberKey{p.UID, m.Role, m.Index}] = true
			l.add(Holding{
				Key: p.Gang, Role: m.Role, Index: m.Index, Node: m.Node, Since: p.Created,
				GPUs: m.GPUs, Share: m.Share, Ports: portList(m.Port), Resources: m.Resources, Labels: m.Labels, Peers: m.Peers, uid: p.UID,
				Extra: p.Extends, Leaving: p.Leaving, journal: p.Journal,
			})
		}
	}
	for _, p := range s.Pods {
		if p.Ended || (p.Gang != "" && counted[memberKey{p.Gang, p.Role, p.Index}]) {
			continue
		}
		l.add(Holding{
			Key: p.Key, Pod: true, Claim: p.Claim, Role: p.Role, Index: p.Index, Node: p.Node, Since: p.Since,
			GPUs: p.GPUs, Share: p.Share, Loose: p.Loose, Ports: p.Ports, Resources: p.Resources, Labels: p.Labels, Peers: p.Peers, uid: p.UID,
			Extra: p.Gang != "", Leaving: p.Gang != "",
		})
	}
	return l
}

func portList(port int32) []int32 {
	if port == 0 {
		return nil
	}
	return []int32{port}
}

func (l *Ledger) add(h Holding) {
	for _, uuid := range h.GPUs {
		key := deviceKey{h.Node, uuid}
		l.devices[key] = append(l.devices[key], len(l.holdings))
	}
	l.holdings = append(l.holdings, h)
}

// Holder returns who holds the GPU of a node with this UUID, or a part of it; of
// several one that the journal names first.
func (l *Ledger) Holder(node, uuid string) (Holding, bool) {
	held := l.devices[deviceKey{node, uuid}]
	if len(held) == 0 {
		return Holding{}, false
	}
	return l.holdings[held[0]], true
}

// Held is how much is given out of the GPU of a node with this UUID, in
// thousandths and, of shares, in MiB.
func (l *Ledger) Held(node, uuid string) Share {
	var sum Share
	for _, i := range l.devices[deviceKey{node, uuid}] {
		if s := l.holdings[i].Share; s.some() {
			sum.Milli, sum.MiB = sum.Milli+s.Milli, sum.MiB+s.MiB
		} else {
			sum.Milli += placement.Whole
		}
	}
	return sum
}

// Twice returns the GPUs of which more is given out than there is, as node/UUID,
// sorted. There are none unless something other than this package gave them
// out.
func (l *Ledger) Twice() []string {
	var out []string
	for key := range l.devices {
		held, memory := l.Held(key.node, key.uuid), l.memory[key]
		if held.Milli > placement.Whole || memory > 0 && held.MiB > memory {
			out = append(out, key.node+"/"+key.uuid)
		}
	}
	sort.Strings(out)
	return out
}

// Holdings returns all holdings, ordered by node, key, role and index.
func (l *Ledger) Holdings() []Holding {
	out := append([]Holding{}, l.holdings...)
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		switch {
		case a.Node != b.Node:
			return a.Node < b.Node
		case a.Key != b.Key:
			return a.before(b.Key)
		case a.Role != b.Role:
			return a.Role < b.Role
		case a.Index != b.Index:
			return a.Index < b.Index
		}
		return a.Since < b.Since
	})
	return out
}

func (k Key) before(o Key) bool {
	if k.Namespace != o.Namespace {
		return k.Namespace < o.Namespace
	}
	return k.Name < o.Name
}
