package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Cause is why running work is to make room for other work.
type Cause string

// The causes.
const (
	// ForPriority: the other is more important, in the same queue.
	ForPriority Cause = "Priority"
	// ForGuarantee: the other's queue is guaranteed what this one borrowed.
	ForGuarantee Cause = "Guarantee"
	// ForOverdue: the other has waited beyond its patience.
	ForOverdue Cause = "Overdue"
	// ForShorter: the other is much shorter than what is left of this one.
	ForShorter Cause = "Shorter"
)

// Eviction is a placed request that is to give back what it holds, so that
// another can start. It is planned again when it is its turn.
type Eviction struct {
	Key
	// UID is its UID, and Attempt the attempt that is to end.
	UID     string
	Attempt int32
	// For is what it makes room for, and Cause why that is right.
	For   Key
	Cause Cause
	// Lost is by how much its work is thrown back: what it ran since it was
	// last saved, and what starting again takes.
	Lost estimate.Span
}

// For how many waiting requests victims are looked for in one pass: those
// that are entitled to room, those whose patience is over, and the others.
const (
	entitledAttempts = 16
	overdueAttempts  = 8
	shorterAttempts  = 4
)

// notice is for how long nodes are kept free for what others were told to make
// room for, until they are gone.
const notice = 10 * estimate.Minute

// evictions looks for running work that is to make room: first for those that
// are entitled to it, by the guarantee of their queue or their priority; then
// for the overdue, which may take the place of whatever has at least as long
// to go; then for work that is much shorter than what it takes the place of.
func (c *Core) evictions(now Instant, result *Result) {
	c.inVain = c.inVain[:0]
	var entitled, shorter []*entry
	for _, e := range c.waiting {
		if c.notNow(e, now) != nil || c.nominated(e) || c.barred(e) {
			continue
		}
		if len(entitled) < entitledAttempts {
			entitled = append(entitled, e)
		}
		if len(shorter) < shorterAttempts {
			shorter = append(shorter, e)
		}
	}
	if len(entitled) == 0 {
		return
	}
	least := c.leastImportant(now)
	for _, e := range entitled {
		if s := c.entitlement(e, least); s != nil {
			c.evictFor(s, now, result)
		}
	}
	if c.options.Gain < 0 {
		return
	}
	tried := 0
	for _, e := range c.due {
		if e.placed || c.nominated(e) {
			continue
		}
		if tried++; tried > overdueAttempts {
			break
		}
		c.evictFor(c.gainful(e, now, ForOverdue, 1), now, result)
	}
	for _, e := range shorter {
		if !e.placed && !c.nominated(e) {
			c.evictFor(c.gainful(e, now, ForShorter, c.options.Gain), now, result)
		}
	}
}

// search is a search for victims.
type search struct {
	wants *entry
	cause Cause
	// avoid are the nodes that are not to be used.
	avoid *placement.NodeSet
	// need and gain: a victim must still have gain times what the other needs
	// and it would lose itself to go. For ForOverdue and ForShorter.
	need estimate.Span
	gain float64
	// from are the queues that the other's may take back from.
	from []queue.Source
}

// entitled reports that the search is not for the sake of shorter work.
func (s *search) entitled() bool { return s.cause == ForPriority || s.cause == ForGuarantee }

// leastImportant are the lowest priorities of what may be evicted, by queue.
func (c *Core) leastImportant(now Instant) map[queue.Queue]int32 {
	out := map[queue.Queue]int32{}
	for _, v := range c.running {
		if v.req.Pod || v.leaving(now) {
			continue
		}
		if least, some := out[v.queue]; !some || v.req.Priority < least {
			out[v.queue] = v.req.Priority
		}
	}
	return out
}

// entitlement is the search for an entry that is entitled to room, or nil.
func (c *Core) entitlement(e *entry, least map[queue.Queue]int32) *search {
	if !c.free4all() {
		if from := c.tree.Reclaimable(e.queue, e.ask, nil); len(from) > 0 {
			return &search{wants: e, cause: ForGuarantee, from: from}
		}
	}
	if priority, some := least[e.queue]; some && priority < e.req.Priority {
		return &search{wants: e, cause: ForPriority}
	}
	return nil
}

// gainful is the search for an entry that would be done long before what it
// takes the place of. The longer it has waited, compared with what it needs,
// the shorter it counts.
func (c *Core) gainful(e *entry, now Instant, cause Cause, gain float64) *search {
	need := e.estimate.Mean(e.req.Ran)
	aged := float64(need) / (1 + float64(e.waited(now))/float64(max(need, 15*estimate.Minute)))
	return &search{wants: e, cause: cause, gain: gain, need: estimate.Span(aged)}
}

// mayGo reports that a running entry may be evicted in this search: gangs
// alone, which have run for a while.
//
// For the sake of priority or of a guarantee any gang may go that is less
// important, or whose queue is above its guarantee. For the sake of shorter
// work only such as goes on from where it was saved, is of the same queue and
// no more important, was not evicted too often, and still has long to go.
func (c *Core) mayGo(v *entry, s *search, now Instant) bool {
	if !s.entitled() && (v.queue != s.wants.queue || v.req.Priority > s.wants.req.Priority) {
		return false // most are told apart by this, which costs least
	}
	least := c.options.MinRun
	if s.cause == ForGuarantee {
		if own := estimate.Span(c.tree.MinRunTime(v.queue)); own > 0 {
			least = own
		}
	}
	if v.req.Pod || v.leaving(now) || now.since(v.began()) < least || v.req.UID == s.wants.req.extends {
		return false
	}
	switch s.cause {
	case ForPriority:
		return v.queue == s.wants.queue && v.req.Priority < s.wants.req.Priority
	case ForGuarantee:
		if c.tree.ReclaimsFrom(s.wants.queue) == queue.ReclaimLowerPriority && v.req.Priority >= s.wants.req.Priority {
			return false
		}
		return s.from == nil || owes(v, s.from)
	}
	if !v.req.Resumes || len(v.held) != 1 || v.req.Evictions >= c.options.MaxEvictions {
		return false
	}
	return float64(c.left(v, now)) >= s.gain*float64(s.need+c.lost(v, now))
}

// leaving reports that an entry was told to make room a moment ago. One that
// is still there after the notice may be told again.
func (v *entry) leaving(now Instant) bool { return v.toldAt != 0 && now.since(v.toldAt) < notice }

// left is the expected remaining run time of a running entry, worked out once
// for each instant.
func (c *Core) left(v *entry, now Instant) estimate.Span {
	if v.leftAt != now {
		v.leftFor, v.leftAt = c.remaining(v, now), now
	}
	return v.leftFor
}

// price is what evicting an entry costs. For the entitled it is the GPU time
// that is lost; else its GPUs, divided by the time for which they are gained,
// the dearer the more it has not saved: of two that have as long to go, the one
// goes that saved last.
func (c *Core) price(v *entry, s *search, now Instant) float64 {
	switch s.cause {
	case ForPriority, ForGuarantee:
		return float64(v.gpus+1) * float64(c.lost(v, now))
	}
	unsaved := float64(c.lost(v, now) - c.options.Restart)
	return float64(v.gpus) * (float64(estimate.Hour) + max(1, c.options.Gain)*unsaved) / float64(c.left(v, now)+1)
}

// lost is by how much evicting an entry throws its work back: all it ran in
// this attempt, if it does not go on from where it was saved.
func (c *Core) lost(v *entry, now Instant) estimate.Span {
	switch {
	case c.options.SavesAlways:
		return c.options.Restart
	case !v.req.Resumes:
		return v.age(now) + c.options.Restart
	}
	return now.since(max(v.savedAt(), v.began())) + c.options.Restart
}

// owes reports that an entry holds something that may be taken back.
func owes(v *entry, from []queue.Source) bool {
	return slices.ContainsFunc(from, func(f queue.Source) bool {
		return f.Queue == v.queue && slices.ContainsFunc(v.held, func(h held) bool {
			return int(f.Class) < len(h.charged) && h.charged[f.Class] > 0
		})
	})
}

// evictFor makes room for an entry. Nothing is evicted unless the entry then
// has room: it is tried first. Of those whose eviction turns out not to be
// needed none is evicted.
func (c *Core) evictFor(s *search, now Instant, result *Result) {
	e := s.wants
	if e.placed {
		return
	}
	s.avoid = c.avoidFor(e)
	victims := c.victims(s, now)
	if len(victims) == 0 {
		return
	}
	c.inVain = c.inVain[:0]
	back, nodes, ok := c.beside(s, victims)
	if !ok || !s.entitled() && !c.afford(victims, now) {
		return
	}
	limits := c.inTheWay(e)
	c.order(back, e, result)
	if c.options.Instantly {
		c.giveAtOnce(back)
	}
	for _, v := range victims {
		c.evict(v, s, now, result)
	}
	if !c.options.Instantly {
		c.nominate(promise{entry: e, at: now.add(notice), valid: true, nodes: nodes, limits: limits})
		return
	}
	if f, ok := c.place(e, s.avoid); ok {
		c.plan(f, now, result)
		if s.cause == ForOverdue {
			c.favour(e)
		}
	}
}

// victims are whom it takes for the entry of a search to have room, what is
// beyond the minimum of others being given back; none if that does not help.
func (c *Core) victims(s *search, now Instant) []*entry {
	defer c.lifting()()
	c.raiseExtras()
	victims := c.onNodes(s, now)
	if victims == nil && s.entitled() {
		victims = c.anywhere(s, now)
	}
	if victims == nil || !c.fewest(s, &victims) {
		return nil
	}
	return victims
}

// beside finds which replicas beyond a minimum have to go beside the victims,
// and the nodes that the entry then would be on.
func (c *Core) beside(s *search, victims []*entry) (back []extra, nodes []placement.NodeID, ok bool) {
	defer c.lifting()()
	for _, v := range victims {
		c.lift(v)
	}
	gone, may := c.yielders(s.wants)
	ours := func(x extra) bool { return x.held.up }
	may, gone = slices.DeleteFunc(may, ours), slices.DeleteFunc(gone, ours)
	if back, ok = c.fewestBack(gone, may, func() bool { return c.hasRoom(s) }); !ok {
		return nil, nil, false
	}
	c.raiseAll(gone)
	c.raiseAll(back)
	f, ok := c.place(s.wants, s.avoid)
	if !ok {
		return nil, nil, false
	}
	nodes = f.nodes()
	f.back()
	return back, nodes, true
}

// onNodes looks for the nodes that can be cleared at the least price, for
// requests of one role with GPUs. It returns whom that takes, the dearest
// first; nil if they do not suffice.
func (c *Core) onNodes(s *search, now Instant) []*entry {
	e := s.wants
	if len(e.asks) != 1 || e.req.Roles[0].GPUs == 0 || len(e.req.Roles[0].FixedPorts) > 0 {
		return nil
	}
	if c.futile(s) {
		return nil
	}
	chances := c.suffice(e, c.chances(s, now))
	if chances == nil {
		c.inVain = append(c.inVain, *s)
		return nil
	}
	victims := distinct(chances)
	c.dearestFirst(victims, s, now)
	defer c.lifting()()
	for _, v := range slices.Backward(victims) {
		if s.cause == ForGuarantee && !c.lawful(v, s) {
			return nil
		}
		c.lift(v)
	}
	if !c.hasRoom(s) {
		return nil
	}
	return victims
}

// anywhere looks for whom to evict for any request: the cheapest, and twice as
// many again and again, until it has room. It returns them, the dearest first;
// nil if all together do not suffice.
func (c *Core) anywhere(s *search, now Instant) []*entry {
	// What is owed changes with every eviction, and is asked for then.
	any := *s
	any.from = nil
	var may, victims []*entry
	for _, v := range c.running {
		if c.mayGo(v, &any, now) {
			may = append(may, v)
		}
	}
	c.dearestFirst(may, s, now)
	defer c.lifting()()
	for next := 1; len(may) > 0; {
		progress := false
		for i := len(may) - 1; i >= 0; i-- {
			v := may[i]
			if s.cause == ForGuarantee && !c.lawful(v, s) {
				continue
			}
			c.lift(v)
			victims = append(victims, v)
			may = slices.Delete(may, i, i+1)
			progress = true
			if len(victims) >= next {
				next *= 2
				if c.hasRoom(s) {
					slices.Reverse(victims)
					return victims
				}
			}
		}
		if !progress {
			break
		}
	}
	if len(victims) == 0 || !c.hasRoom(s) {
		return nil
	}
	slices.Reverse(victims)
	return victims
}

// lawful reports that a guarantee allows to take back from an entry, after what
// was taken back already: not what no queue above its guarantee holds.
func (c *Core) lawful(v *entry, s *search) bool {
	c.sources = c.tree.Reclaimable(s.wants.queue, s.wants.ask, c.sources[:0])
	return owes(v, c.sources)
}

// byPrice orders victims: where it is for priority the less important first,
// then the cheaper.
func (c *Core) byPrice(a, b *entry, s *search, now Instant) int {
	if s.cause == ForPriority && a.req.Priority != b.req.Priority {
		return cmp.Compare(a.req.Priority, b.req.Priority)
	}
	return cmp.Compare(c.price(a, s, now), c.price(b, s, now))
}

// dearestFirst puts candidates in order.
func (c *Core) dearestFirst(list []*entry, s *search, now Instant) {
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Or(c.byPrice(b, a, s, now), byUID(a, b)) })
}

// hasRoom reports that the entry of a search has room as things are.
func (c *Core) hasRoom(s *search) bool {
	f, ok := c.place(s.wants, s.avoid)
	if ok {
		f.back()
	}
	return ok
}

// fewest leaves out, the dearest first, those without whom there is room as
// well; false if there is no room even so.
func (c *Core) fewest(s *search, victims *[]*entry) bool {
	defer c.lifting()()
	*victims = thin(c, *victims, func() bool { return c.hasRoom(s) }, c.liftAll)
	c.liftAll(*victims)
	return c.hasRoom(s)
}

func (c *Core) liftAll(list []*entry) {
	for _, v := range list {
		c.lift(v)
	}
}

// thin returns those of a part of what may go that are needed for there to be
// room, all others being lifted or not as they will be.
func thin[T any](c *Core, part []T, room func() bool, lift func([]T)) []T {
	if len(part) == 0 || room() {
		return nil
	}
	if len(part) == 1 {
		return part
	}
	half := len(part) / 2
	restore := c.lifting()
	lift(part[half:])
	kept := slices.Clone(thin(c, part[:half], room, lift))
	restore()
	restore = c.lifting()
	lift(kept)
	kept = append(kept, thin(c, part[half:], room, lift)...)
	restore()
	return kept
}

// distinct are the victims of the chances, each once, in order of their UIDs.
func distinct(chances []chance) []*entry {
	var out []*entry
	for i := range chances {
		out = append(out, chances[i].victims...)
	}
	slices.SortFunc(out, byUID)
	return slices.Compact(out)
}

// afford reports that evicting these keeps what is lost by evictions of this
// kind within their budget, and takes it from there.
func (c *Core) afford(victims []*entry, now Instant) bool {
	have := float64(c.cluster.Totals().Devices * placement.Whole)
	c.budget = min(c.budget+lossPart*have*float64(now.since(c.budgetAt)), lossPart*have*float64(budgetSpan))
	c.budgetAt = now
	cost := 0.0
	for _, v := range victims {
		cost += float64(v.gpus) * float64(c.lost(v, now))
	}
	if cost > c.budget {
		return false
	}
	c.budget -= cost
	return true
}

// What evictions for shorter and overdue work may cost: at most a hundredth of
// all GPU time, saved up for at most a day.
const (
	lossPart   = 0.01
	budgetSpan = 24 * estimate.Hour
)

// nominate keeps the nodes free on which an entry is to start once the others
// are gone.
func (c *Core) nominate(p promise) {
	c.nominations = append(c.nominations, p)
	p.into(c.reserved)
}

// nominated reports that nodes are kept free for an entry already, for which
// others were told to go.
func (c *Core) nominated(e *entry) bool {
	return slices.ContainsFunc(c.nominations, func(p promise) bool { return p.entry == e })
}

// renominate drops the nominations that are over, and keeps the nodes of the
// others free.
func (c *Core) renominate(now Instant) {
	c.nominations = slices.DeleteFunc(c.nominations, func(p promise) bool {
		return p.at <= now || p.entry.placed || c.entries[p.entry.req.UID] != p.entry
	})
	for i := range c.nominations {
		c.nominations[i].into(c.reserved)
	}
}

// avoidFor are the nodes that are kept free for others than this entry. What is
// promised to less important work is not kept from it.
func (c *Core) avoidFor(e *entry) *placement.NodeSet {
	own := func(p promise) bool { return p.entry == e || p.entry.req.Priority < e.req.Priority }
	if !slices.ContainsFunc(c.nominations, func(p promise) bool { return p.entry == e }) && !slices.ContainsFunc(c.promises, own) {
		return c.reserved
	}
	out := &placement.NodeSet{}
	for i := range c.nominations {
		if p := &c.nominations[i]; p.entry != e {
			p.into(out)
		}
	}
	for i := range c.promises {
		if p := &c.promises[i]; !own(*p) {
			p.into(out)
		}
	}
	return out
}

// evict says that an entry is to go. Where that is instant, it waits again.
func (c *Core) evict(v *entry, s *search, now Instant, result *Result) {
	result.Evictions = append(result.Evictions, Eviction{
		Key: v.req.Key, UID: v.req.UID, Attempt: v.attempt, For: s.wants.req.Key, Cause: s.cause, Lost: c.lost(v, now),
	})
	if !c.options.Instantly {
		v.toldAt = now
		return
	}
	v.req.Ran = v.age(now)
	v.req.Evictions++
	c.free(v)
	c.learn(v)
	c.insert(v)
}
