package scheduling

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Advice is a change with which a request would start now, or what will let it
// start later as it is. Like a [Reason] it is rendered late.
type Advice interface {
	// Code names the kind.
	Code() Code
	// Render says it in one sentence without a full stop.
	Render(Clock) string
}

// The kinds of advice.
const (
	CodeFewerGPUs    Code = "FewerGPUs"
	CodeFewerMembers Code = "FewerMembers"
	CodeSplit        Code = "SmallerMembers"
	CodeOtherModel   Code = "OtherModel"
	CodeLess         Code = "LessOfResource"
	CodeShorter      Code = "ShorterTime"
	CodeLater        Code = "QueueHasRoomLater"
)

// FewerGPUs advises to ask for fewer GPUs for each member of a role.
type FewerGPUs struct {
	Role string
	// From is what is asked for, To the most with which it would start.
	From, To int32
	// Models are those that would do; empty means any.
	Models []string
}

// FewerMembers advises to ask for fewer members of a role.
type FewerMembers struct {
	Role     string
	From, To int32
}

// SmallerMembers advises to ask for more members with fewer GPUs each, as many
// GPUs in all.
type SmallerMembers struct {
	Role string
	// Members and GPUs are what is asked for, ToMembers of ToGPUs each the
	// fewest with which it would start.
	Members, GPUs, ToMembers, ToGPUs int32
}

// OtherModel advises to allow another GPU model too.
type OtherModel struct {
	Role string
	// Models are those that are allowed, Also one more.
	Models []string
	Also   string
}

// LessOfResource advises to ask for less CPU or memory for each member.
type LessOfResource struct {
	Role string
	// Resource is "cpu" or "memory".
	Resource string
	// From is what is asked for, To the most with which it would start, in
	// steps of Step. CPU in thousandths, memory in bytes.
	From, To, Step int64
}

// ShorterTime advises to declare a shorter run time: there is room on nodes
// that are kept free for another, for what is gone in time.
type ShorterTime struct {
	// Within is how soon the nodes are needed.
	Within estimate.Span
	// For is whom they are kept free for.
	For Key
}

// QueueHasRoomLater says when the queue may take it as it is.
type QueueHasRoomLater struct {
	// Queue is the queue that has too little. Login is as in BlockedByQueue.
	Queue, Login string
	// Resource and Amount are what it has too little of; as in BlockedByQueue.
	Resource string
	Amount   int64
	// Borrow is true where it may borrow that much then.
	Borrow bool
	// After are those that have to end before, At when that is expected.
	After []Key
	At    Instant
}

// Code is CodeFewerGPUs.
func (FewerGPUs) Code() Code { return CodeFewerGPUs }

// Code is CodeFewerMembers.
func (FewerMembers) Code() Code { return CodeFewerMembers }

// Code is CodeSplit.
func (SmallerMembers) Code() Code { return CodeSplit }

// Code is CodeOtherModel.
func (OtherModel) Code() Code { return CodeOtherModel }

// Code is CodeLess.
func (LessOfResource) Code() Code { return CodeLess }

// Code is CodeShorter.
func (ShorterTime) Code() Code { return CodeShorter }

// Code is CodeLater.
func (QueueHasRoomLater) Code() Code { return CodeLater }

// advise finds the smallest changes that would start an entry now, by trying
// them on what is free.
func (c *Core) advise(e *entry, now Instant, why Reason) []Advice {
	var out []Advice
	if r, ok := why.(BlockedByQueue); ok {
		if r.Resource == "" {
			return nil
		}
		if later, ok := c.later(e, r, now); ok {
			out = append(out, later)
		}
	}
	if r, ok := why.(KeptFree); ok && r.Until > now {
		out = append(out, ShorterTime{Within: r.Until.since(now), For: r.For})
	}
	t := &trial{core: c, entry: e, now: now}
	defer t.forget()
	out = append(out, t.topology()...)
	for i := range e.req.Roles {
		if members(&e.req.Roles[i]) > 0 {
			out = append(out, t.role(i)...)
		}
	}
	return out
}

// trial tries changed copies of an entry.
type trial struct {
	core    *Core
	entry   *entry
	now     Instant
	classes []placement.Class
}

// starts reports whether the entry would start now with a change.
func (t *trial) starts(i int, change func(*Role)) bool {
	return t.startsWith(func(r *Request) { change(&r.Roles[i]) })
}

// startsWith reports whether the entry would start now with a change of the
// whole request.
func (t *trial) startsWith(change func(*Request)) bool {
	copied := t.entry.req
	copied.Roles = slices.Clone(copied.Roles)
	change(&copied)
	e := t.core.copied(t.entry, copied)
	for k, class := range e.asks {
		if k >= len(t.entry.asks) || class != t.entry.asks[k] {
			t.classes = append(t.classes, class)
		}
	}
	defer t.core.standIn(t.entry, e)()
	return t.core.starts(e, t.now)
}

// standIn lets a changed copy of an entry have what is promised to it, until
// the function that it returns is called.
func (c *Core) standIn(e, copied *entry) (back func()) {
	swap := func(from, to *entry) {
		for _, list := range [][]promise{c.nominations, c.promises} {
			for i := range list {
				if list[i].entry == from {
					list[i].entry = to
				}
			}
		}
	}
	swap(e, copied)
	return func() { swap(copied, e) }
}

// copied is an entry as it would be with another request.
func (c *Core) copied(e *entry, req Request) *entry {
	out := &entry{req: req, estimate: e.estimate, learned: e.learned, length: e.length, dueAt: e.dueAt}
	for i := range req.Roles {
		out.asks = append(out.asks, c.ask(&req.Roles[i], 1))
		out.gpus += c.milli(&req.Roles[i]) * members(&req.Roles[i])
	}
	c.enrol(out)
	return out
}

// forget drops what the tables remember of what was only tried.
func (t *trial) forget() {
	for _, class := range t.classes {
		t.core.cluster.Forget(class)
	}
}

// most is the largest of 1 to n-1 that does, or 0. It tries the few largest one
// by one, and searches by halves below them, because what fits with more fits
// with less.
func most(n int64, does func(int64) bool) int64 {
	const oneByOne = 16
	for k := n - 1; k >= 1; k-- {
		if does(k) {
			return k
		}
		if n-k == oneByOne {
			n = k
			break
		}
	}
	low, high := int64(0), n
	for high-low > 1 {
		if mid := (low + high) / 2; does(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// role tries every kind of change of a role.
func (t *trial) role(i int) []Advice {
	r := &t.entry.req.Roles[i]
	var out []Advice
	if k := most(int64(r.GPUs), func(k int64) bool { return t.starts(i, func(r *Role) { r.GPUs = int32(k) }) }); r.GPUs > 1 && k > 0 {
		out = append(out, FewerGPUs{Role: r.Name, From: r.GPUs, To: int32(k), Models: r.Models})
	}
	if len(r.Done) == 0 && r.Replicas > 1 {
		from := int32(members(r))
		k := most(int64(from), func(k int64) bool { return t.starts(i, func(r *Role) { r.Replicas = int32(k) }) })
		if k > 0 {
			out = append(out, FewerMembers{Role: r.Name, From: from, To: int32(k)})
		}
		out = append(out, t.split(i)...)
	}
	out = append(out, t.shares(i)...)
	out = append(out, t.models(i)...)
	return append(out, t.amounts(i)...)
}

// split tries more members with fewer GPUs each. Only a role that has several
// members already is known to be able to.
func (t *trial) split(i int) []Advice {
	r := &t.entry.req.Roles[i]
	if r.elastic() {
		return nil
	}
	for parts := int32(2); parts <= r.GPUs; parts++ {
		if r.GPUs%parts != 0 {
			continue
		}
		n, each := r.Replicas*parts, r.GPUs/parts
		if t.starts(i, func(r *Role) { r.Replicas, r.GPUs = n, each }) {
			return []Advice{SmallerMembers{Role: r.Name, Members: r.Replicas, GPUs: r.GPUs, ToMembers: n, ToGPUs: each}}
		}
	}
	return nil
}

// models tries every model that there is beside those that are allowed.
func (t *trial) models(i int) []Advice {
	r := &t.entry.req.Roles[i]
	if len(r.Models) == 0 || !r.wantsGPU() {
		return nil
	}
	var names []string
	for _, s := range t.core.sites {
		if s == nil {
			continue
		}
		for d := range s.node.Devices {
			dev := s.node.Devices[d]
			if dev.Model != "" && dev.usable() && !r.accepts(dev) && !slices.ContainsFunc(names, dev.is) {
				names = append(names, dev.Model)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		also := append(slices.Clone(r.Models), name)
		if t.starts(i, func(r *Role) { r.Models = also }) {
			return []Advice{OtherModel{Role: r.Name, Models: r.Models, Also: name}}
		}
	}
	return nil
}

// amounts tries less CPU and memory.
func (t *trial) amounts(i int) []Advice {
	r := &t.entry.req.Roles[i]
	var out []Advice
	try := func(resource string, from int64, set func(*Role, int64)) {
		if from <= 0 || !t.starts(i, func(r *Role) { set(r, 0) }) {
			return
		}
		step := stepOf(resource, from)
		n := (from + step - 1) / step
		if k := most(n, func(k int64) bool { return t.starts(i, func(r *Role) { set(r, k*step) }) }); k > 0 {
			out = append(out, LessOfResource{Role: r.Name, Resource: resource, From: from, To: k * step, Step: step})
		}
	}
	try(resourceCPU, r.Resources.MilliCPU, func(r *Role, to int64) { r.Resources.MilliCPU = to })
	try(resourceMemory, r.Resources.Memory, func(r *Role, to int64) { r.Resources.Memory = to })
	return out
}

// stepOf is in what steps less of a resource is advised: whole cores and GiB,
// or tenths of a core and of about a GiB where it is little.
func stepOf(resource string, from int64) int64 {
	switch {
	case resource == resourceCPU && from > 2000:
		return 1000
	case resource == resourceCPU:
		return 100
	case from > 2<<30:
		return 1 << 30
	}
	return 128 << 20
}

// later says after whose end a queue may take an entry as it is: what is to be
// given back is taken from those whose ends are expected first.
func (c *Core) later(e *entry, r BlockedByQueue, now Instant) (QueueHasRoomLater, bool) {
	class, ok := c.tree.Classes().Find(r.Resource)
	if !ok {
		return QueueHasRoomLater{}, false
	}
	type source struct {
		entry *entry
		at    Instant
	}
	mark := c.tree.Mark()
	defer func() {
		c.tree.Undo(mark)
		if mark == 0 {
			c.tree.Keep()
		}
	}()
	var ends []source
	for _, o := range c.running {
		if slices.ContainsFunc(o.held, func(h held) bool { return h.charged[class] > 0 }) {
			ends = append(ends, source{o, now.add(max(aWhile, o.estimate.Quantile(o.age(now), 0.5)))})
		}
	}
	slices.SortFunc(ends, func(a, b source) int { return cmp.Or(cmp.Compare(a.at, b.at), byUID(a.entry, b.entry)) })
	out := QueueHasRoomLater{Queue: r.Queue, Resource: r.Resource, Amount: r.Missing, Borrow: c.borrowsFor(e, class)}
	missing := func() int64 {
		b, ok := c.tree.Admit(e.queue, e.ask)
		if ok || b.Class != class {
			return 0
		}
		return b.Missing
	}
	for left := missing(); left > 0; {
		if len(ends) == 0 {
			return out, false
		}
		next := ends[0]
		ends = ends[1:]
		for i := range next.entry.held {
			c.tree.Refund(next.entry.queue, next.entry.user, next.entry.held[i].charged)
		}
		if now := missing(); now < left {
			left = now
			out.After, out.At = append(out.After, next.entry.req.Key), next.at
		}
	}
	return out, len(out.After) > 0
}

// borrowsFor reports that an entry is beyond what its queue is guaranteed.
func (c *Core) borrowsFor(e *entry, class queue.Class) bool {
	return c.tree.Used(e.queue, class)+e.ask[class] > c.tree.Guaranteed(e.queue, class)
}

// plural is a word for one, or with an s.
func plural(n int64, word string) string {
	if n == 1 || strings.HasSuffix(word, "s") {
		return word
	}
	return word + "s"
}
