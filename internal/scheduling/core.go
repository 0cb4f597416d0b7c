package scheduling

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Options are what a Core can be told besides what happens. The zero value
// means the defaults.
type Options struct {
	// Patience is how long work that needs a whole node, or several, waits
	// before nodes are kept free for it. Smaller work waits longer: see
	// [Core.dueAfter]. Default: 6 hours.
	Patience estimate.Span
	// Reservations is for how many overdue requests nodes are kept free at the
	// same time. Default: 1.
	Reservations int
	// Gain is how many times longer than the work that takes its place, loss
	// included, a running one must still have to go to be evicted for it.
	// Default: 4. Below 0: nothing is evicted for shorter work.
	Gain float64
	// MinRun is for how long everything runs before it may be evicted.
	// Default: 6 minutes.
	MinRun estimate.Span
	// MaxEvictions is how often one piece of work may be evicted. Default: 5.
	MaxEvictions int32
	// Restart is what being stopped and started again costs a piece of work
	// beside what it had not saved. Default: 1 minute.
	Restart estimate.Span
	// SavesAlways says that no work is ever thrown back by an eviction, but for
	// the restart. Only a simulation can say so.
	SavesAlways bool
	// Instantly says that what is evicted is gone at once, and what it made
	// room for is planned in the same decision. Only a simulation can say so.
	Instantly bool
}

func (o Options) complete() Options {
	if o.Patience <= 0 {
		o.Patience = 6 * estimate.Hour
	}
	if o.Reservations <= 0 {
		o.Reservations = 1
	}
	if o.Gain == 0 {
		o.Gain = 4
	}
	if o.MinRun <= 0 {
		o.MinRun = 6 * estimate.Minute
	}
	if o.MaxEvictions <= 0 {
		o.MaxEvictions = 5
	}
	if o.Restart <= 0 {
		o.Restart = estimate.Minute
	}
	return o
}

// Core keeps what decisions depend on, between them: every change is told to
// it once, and costs what changed. It decides without clock, client or
// goroutine, and is used by one goroutine at a time.
type Core struct {
	options Options
	cluster *placement.Cluster
	book    estimate.Book
	rules   map[string]bool

	nodes map[string]*site
	sites []*site // by NodeID
	// largest is how many devices the node with the most has, and sizes how
	// many nodes have so many.
	largest int
	sizes   []int
	// memories is the largest memory of a GPU of each model, in MiB.
	memories map[string]int64
	// softTaints is how many nodes have taints that only keep off what finds
	// room elsewhere.
	softTaints int
	// have is what all nodes have in the tree's classes.
	have queue.Vector
	// version changes with the nodes and the queues: with what can ever fit.
	version uint64
	// byName are the nodes in the order of their names, as of byNameAt.
	byName   []*site
	byNameAt uint64
	// favoured is what was started out of order holds, in milli GPUs.
	favoured int64

	entries map[string]*entry // by UID
	waiting []*entry          // in order
	running []*entry          // in order of their UIDs

	// tree is the queues, from specs; models are those of the nodes.
	tree      *queue.Tree
	specs     []queue.Spec
	models    []string
	oneUser   string
	manyUsers bool

	// quotas are those of each namespace that has any.
	quotas map[string][]*quota
	// claims are for whom quotas are kept, by namespace, as of the last decision.
	claims map[string]*entry

	reserved *placement.NodeSet
	promises []promise
	// nominations are for what others were told to make room for.
	nominations []promise
	// inVain are the searches for victims that have found too few since anything
	// was changed.
	inVain []search
	// budget is what evictions for shorter work may still lose, as of
	// budgetAt, in milli GPUs x nanoseconds.
	budget   float64
	budgetAt Instant
	// failed marks the classes that found no room anywhere in this pass, and
	// outside those that found none outside the nodes that are kept free.
	failed, outside []failure
	pass            uint32
	// denied is whether the last attempt to place an entry failed because of
	// its queue alone.
	denied  bool
	due     []*entry
	scratch []*entry
	// growFrom is when members beyond a minimum are added again.
	growFrom Instant
	// extras counts the replicas beyond the minimum that are held.
	extras  int
	sources []queue.Source
	wants   []placement.Want
	// raised are the members that were given back for a while, and yielding
	// marks the classes for which that gave no room in this pass.
	raised   []extra
	yielding []failure
	// lifted are the ports that were given back for a while, and depth how
	// often that was begun and not ended.
	lifted []portOf
	depth  int
	// shunners is how much is held whose rules keep others off, and blind is
	// true while such rules are not looked at.
	shunners int
	blind    bool
	blocks   []queue.Block
	// stirred are the sites on which those that hold devices without a name may
	// have to move, and renamed those whose devices have other names.
	stirred, renamed map[*site]bool
	// lacking are the UIDs of the entries that lack something that they hold.
	lacking map[string]bool
	usual   usual
	// domains and rows are scratch.
	domains []placement.DomainID
	rows    []placement.NodeID
}

// site is a node and what the tables of package placement do not keep.
type site struct {
	id    placement.NodeID
	node  Node
	there bool // the node is known
	ports map[int32]int
	// milli is the sum of what is held of the node's devices, and loose how many
	// of them are held without a name.
	milli, loose int64
	// here are the entries that hold something on the node, in order of their
	// UIDs.
	here []*entry
}

// entry is a request, waiting or placed.
type entry struct {
	req Request
	// source is the request as Sync saw it last, and holdings what it held.
	source   *Request
	holdings []Holding
	asks     []placement.Class // by role
	// host is the placed gang that it is one more member of; nil if it is none.
	host *entry
	// queue and user are whom it is charged to, with ask; lost is true where
	// its queue does not exist.
	queue queue.Queue
	user  queue.User
	ask   queue.Vector
	lost  bool
	// gpus is what it asks for in all, in milli.
	gpus int64
	// met is true once it was counted among what usually comes.
	met bool

	estimate estimate.Estimate
	learned  int // version of the book
	length   int // class of the expected remaining time
	dueAt    Instant

	placed  bool
	attempt int32
	// unseen is true while it holds what no snapshot has shown, or was ordered
	// to give back what none has shown to leave.
	unseen bool
	// favoured is how many milli GPUs it was started with out of order.
	favoured int64
	since    Instant
	saved    Instant
	// skew is by how much the clock was set while it was known, late by how
	// much of that since it was placed, and after by how much since its work was
	// saved: see [Core.Shift].
	skew, late, after estimate.Span
	held              []held
	// extras is how many of those are beyond the minimum of an elastic gang, and
	// busy are the members that have a place in the journal, held or not.
	extras int
	busy   map[memberKey]bool
	// lates is by how much the clock was set since those beyond the minimum
	// began; nil where it was not.
	lates map[memberKey]estimate.Span

	// journalled is true where a placement says what it holds, and not pods
	// alone.
	journalled bool
	// lacks is what it holds and could not be given here: the node or the
	// device is not known, or another holds it.
	lacks []want
	// judged is the version as of which possible says whether it could start
	// if nothing else ran.
	judged   uint64
	possible bool
	// missed counts the promises that were not kept to it; the last was for
	// promisedAt.
	missed     int
	promisedAt Instant
	// toldAt is when it was told to make room; 0: it was not.
	toldAt Instant
	// leftFor is the expected remaining run time at leftAt.
	leftFor estimate.Span
	leftAt  Instant
}

// want is a device or a part of it, or with an empty UUID all that is held on a
// node.
type want struct {
	node, uuid string
	share      Share
}

// portOf is a port of a node.
type portOf struct {
	site *site
	port int32
}

// held is what one member holds.
type held struct {
	role  string
	index int32
	site  *site
	seats []placement.Seat
	ports []int32
	// loose is how many devices it holds without a name, by the seats behind the
	// first firm ones.
	loose int32
	firm  int
	// resources is what it holds beside GPUs, charged what its queue is
	// charged with for all of it.
	resources Resources
	charged   queue.Vector
	// kin is for rules about where others are; nil where there are none.
	kin *kin
	// extra is true for a replica beyond the minimum; it began at since, is in
	// the journal's entry of this UID, and is leaving once it was ordered back. So
	// is what is left of a gang's pod that the journal does not count any more.
	extra, leaving bool
	since          Instant
	journal        string
	// up is true while it is given back for a while.
	up bool
}

// NewCore returns a Core that knows nothing yet.
func NewCore(o Options) *Core {
	c := &Core{
		options: o.complete(), cluster: placement.New(placement.Options{}),
		rules: map[string]bool{}, nodes: map[string]*site{}, entries: map[string]*entry{},
		reserved: &placement.NodeSet{}, memories: map[string]int64{}, lacking: map[string]bool{},
		stirred: map[*site]bool{}, renamed: map[*site]bool{},
	}
	c.tree, _ = queue.Build(nil, queue.Options{})
	c.have = c.tree.Classes().Zero()
	return c
}

// SetNode makes a node known, or replaces what is known of it. What is held
// there stays held.
func (c *Core) SetNode(n Node) {
	spec := nodeSpec(&n)
	id, err := c.cluster.SetNode(spec)
	if err != nil {
		// A node that lies about itself is not used.
		spec = placement.NodeSpec{Name: n.Name, Blocked: true}
		if id, err = c.cluster.SetNode(spec); err != nil {
			return
		}
	}
	for int(id) >= len(c.sites) {
		c.sites = append(c.sites, nil)
	}
	s, was := c.nodes[n.Name], 0
	if s == nil {
		// It may have been known before, and something may be held there since.
		if s = c.sites[id]; s == nil || s.node.Name != n.Name {
			s = &site{ports: map[int32]int{}}
		}
		c.nodes[n.Name] = s
	} else {
		c.stock(&s.node, -1)
		c.size(len(s.node.Devices), -1)
		was = s.node.soft()
	}
	c.rename(s, &n)
	s.id, s.node, s.there = id, n, true
	c.countSoft(n.soft() - was)
	c.sites[id] = s
	c.size(len(n.Devices), +1)
	fresh := false
	for _, d := range spec.Devices {
		if !slices.Contains(c.models, d.Model) {
			c.models, fresh = append(c.models, d.Model), true
		}
		if d.MemoryMiB > c.memories[d.Model] {
			c.memories[d.Model], fresh = d.MemoryMiB, true
		}
	}
	if fresh {
		c.rebuild()
	} else {
		c.stock(&s.node, +1)
		c.tree.SetCapacity(c.have)
	}
	c.changed()
}

// changed notes that nodes or queues have changed.
func (c *Core) changed() {
	c.version++
	c.promises = c.promises[:0]
}

// size counts nodes by how many devices they have.
func (c *Core) size(devices, change int) {
	for devices >= len(c.sizes) {
		c.sizes = append(c.sizes, 0)
	}
	c.sizes[devices] += change
	for c.largest = len(c.sizes) - 1; c.largest > 0 && c.sizes[c.largest] == 0; {
		c.largest--
	}
}

// DropNode forgets a node. What is held there stays held until it is released.
func (c *Core) DropNode(name string) {
	s := c.nodes[name]
	if s == nil {
		return
	}
	c.cluster.RemoveNode(name)
	delete(c.nodes, name)
	s.there = false
	c.countSoft(-s.node.soft())
	c.stock(&s.node, -1)
	c.tree.SetCapacity(c.have)
	c.size(len(s.node.Devices), -1)
	c.changed()
}

// known reports that a site is of a node that is there.
func (c *Core) known(s *site) bool { return s != nil && s.there }

// nodeSpec is the node in the terms of package placement. Amounts out of
// range are brought into it.
func nodeSpec(n *Node) placement.NodeSpec {
	spec := placement.NodeSpec{
		Name: n.Name, MilliCPU: clamp(n.Allocatable.MilliCPU), MemoryBytes: clamp(n.Allocatable.Memory),
		Pods: clamp(n.Allocatable.Pods), Facts: n, Domains: n.Domains.path(),
	}
	for _, name := range sortedKeys(n.Allocatable.Other) {
		spec.Other = append(spec.Other, placement.Amount{Name: name, Value: clamp(n.Allocatable.Other[name])})
	}
	devices := slices.Clone(n.Devices)
	slices.SortStableFunc(devices, func(a, b Device) int { return a.Index - b.Index })
	seen := map[string]bool{}
	for _, d := range devices {
		if d.UUID == "" || seen[d.UUID] || len(spec.Devices) == placement.MaxDevices {
			continue
		}
		seen[d.UUID] = true
		spec.Devices = append(spec.Devices, placement.DeviceSpec{
			UUID: d.UUID, Model: strings.ToLower(d.Model), MemoryMiB: clamp(d.MemoryMiB), Blocked: !d.usable(),
		})
	}
	return spec
}

func clamp(amount int64) int64 { return min(placement.MaxAmount, max(0, amount)) }

// SetRequest makes a request known, or replaces what is known of it. One that
// is placed stays where it is.
func (c *Core) SetRequest(r Request) {
	e := c.entries[r.UID]
	if e == nil {
		e = &entry{}
		c.entries[r.UID] = e
	} else if !e.placed {
		c.remove(e)
	}
	for i := range e.held {
		c.tree.Refund(e.queue, e.user, e.held[i].charged)
	}
	if e.source != nil && e.source.NotBefore == r.NotBefore {
		r.NotBefore = e.req.NotBefore // on the clock as it is now
	}
	e.req, e.judged = r, 0
	if !e.placed || len(r.Roles) > 0 {
		e.asks, e.gpus = e.asks[:0], 0
		for i := range r.Roles {
			role := &r.Roles[i]
			e.asks = append(e.asks, c.ask(role, 1))
			e.gpus += c.milli(role) * members(role)
		}
	}
	c.meet(e)
	c.enrol(e)
	for i := range e.held {
		c.tree.Charge(e.queue, e.user, e.held[i].charged)
	}
	c.learn(e)
	if !e.placed {
		c.insert(e)
	}
}

// milli is what a member holds of devices.
func (h *held) milli() int64 {
	var sum int64
	for _, s := range h.seats {
		sum += int64(s.Milli) * int64(bits.OnesCount64(s.Devices))
	}
	return sum
}

// Drop forgets a request, and gives back whatever it holds.
func (c *Core) Drop(uid string) {
	e := c.entries[uid]
	if e == nil {
		return
	}
	c.free(e)
	c.remove(e)
	delete(c.entries, uid)
}

// Observe learns from work that ended by itself after having run for so long
// in all its attempts.
func (c *Core) Observe(e estimate.Evidence, ran estimate.Span) { c.book.Observe(e, ran) }
