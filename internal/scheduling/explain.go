package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Explanation is all that is known of where a request stands.
type Explanation struct {
	// Reason is why it is where it is.
	Reason Reason
	// Asked is for how many of its members nodes were asked for; 0: for none.
	Asked int32
	// Position is its place in the order of turns; nil unless it waits.
	Position *Position
	// Expected is when it will start; nil where that cannot be said.
	Expected *Expected
	// Advice are the smallest changes with which it would start now, each of
	// another kind, and what it may have later as it is.
	Advice []Advice
	// Tenure is for how long it keeps what it has; nil unless it is placed.
	Tenure *Tenure
	// Ends is when it is expected to end; nil unless it is placed and something
	// is known of how long it runs.
	Ends *Expected
	// Size is how many members it has; nil unless it is placed and elastic.
	Size *Size
}

// Position is a place in the order of turns.
type Position struct {
	// Place counts from 1, Of how many could start if they had room.
	Place, Of int
	// Priority, Overdue, Shorter, Older and Owed are how many of those ahead
	// are there because their priority is higher, they have waited beyond
	// their patience, they are shorter, they are older, or their queue or user
	// has had less. Each is counted once, by the first that is true.
	Priority, Overdue, Shorter, Older, Owed int
}

// Tenure is whether what is placed may have to make room for others.
type Tenure struct {
	// MakingRoom is since when it is to go; 0: it is not.
	MakingRoom Instant
	// SafeUntil is before when it is not evicted, whatever comes.
	SafeUntil Instant
	// ForShorter says that it may be evicted for shorter or overdue work,
	// because it goes on from where it was saved.
	ForShorter bool
	// Evictions is how often it was evicted already.
	Evictions int32
	// Never is true for a pod that is in no gang: it is never evicted.
	Never bool
}

// Explain says where a request stands: why it waits, its place in the order of
// turns, when it is expected to start and with what smallest change it would
// start now. It is meant to be asked after Decide, and leaves the core as it
// is. It is false if there is no such request.
func (c *Core) Explain(uid string, now Instant) (Explanation, bool) {
	return c.ExplainBy(&Foresight{}, uid, now)
}

// ExplainBy is [Core.Explain] with what was learned from earlier forecasts.
func (c *Core) ExplainBy(f *Foresight, uid string, now Instant) (Explanation, bool) {
	e := c.entries[uid]
	if e == nil {
		return Explanation{}, false
	}
	if e.placed {
		return Explanation{Reason: Placed{Since: e.since, Attempt: e.attempt}, Tenure: c.tenure(e), Ends: c.ends(e, now), Size: c.sizeOfGang(e, now)}, true
	}
	x := Explanation{Reason: c.reason(e, now, nil), Asked: e.req.Asked}
	if x.Reason.Code() == CodeQuota {
		x.Advice = c.advise(e, now, x.Reason)
		return x, true
	}
	if x.Reason.Code() == CodeFits || c.notNow(e, now) != nil || e.lost {
		return x, true
	}
	if mayCome(x.Reason) {
		x.Position = c.position(e, now)
		if expected, ok := f.Forecast(c, uid, now); ok {
			x.Expected = &expected
		}
	}
	x.Advice = c.advise(e, now, x.Reason)
	return x, true
}

// ends is when a placed entry is expected to end, in four of five cases.
func (c *Core) ends(e *entry, now Instant) *Expected {
	basis := c.book.Basis(e.req.Evidence)
	if e.req.Pod || basis == estimate.BasisGuess {
		return nil
	}
	age := e.age(now)
	from, to := e.estimate.Range(age)
	return &Expected{From: now.add(from), To: now.add(to), Basis: basis}
}

// mayCome reports that what a request waits for may come while the nodes and
// queues stay as they are.
func mayCome(r Reason) bool {
	switch r := r.(type) {
	case NoNodes, NoNodeAllows, NoSuchModel, TooLarge, ShareTooLarge, Unsupported, Paused, NoDomain, KeptApart:
		return false
	case InDomain:
		return !r.Ever
	case TooFewDomains:
		return !r.Ever
	case BlockedByQueue:
		return r.Resource != "" && r.Asked <= r.Allowed
	}
	return true
}

// tenure says whether a placed entry may have to make room.
func (c *Core) tenure(e *entry) *Tenure {
	t := &Tenure{
		MakingRoom: e.toldAt, SafeUntil: e.began().add(c.options.MinRun), Evictions: e.req.Evictions, Never: e.req.Pod,
	}
	t.ForShorter = !e.req.Pod && e.req.Resumes && len(e.held) == 1 && e.req.Evictions < c.options.MaxEvictions && c.options.Gain >= 0
	return t
}

// reason is why a waiting entry does not start, compared with what is left in
// the house; nil: look.
func (c *Core) reason(e *entry, now Instant, left *house) Reason {
	if r := c.notNow(e, now); r != nil {
		return r
	}
	if r := c.nomination(e); r != nil {
		return r
	}
	if r := c.blocked(e); r != nil {
		return r
	}
	if r, ok := c.roomFor(e, now); ok {
		return r
	}
	if r := c.keptApart(e); r != nil {
		return r
	}
	if left == nil {
		left = c.house()
	}
	return compare(&e.req, left)
}

// nomination says that others were told to make room for an entry.
func (c *Core) nomination(e *entry) Reason {
	for i := range c.nominations {
		if c.nominations[i].entry != e {
			continue
		}
		var out MakingRoom
		for _, v := range c.running {
			onNode := func(h held) bool { return slices.Contains(c.nominations[i].nodes, h.site.id) }
			goes := func(h held) bool { return (v.toldAt != 0 || h.leaving) && onNode(h) }
			if slices.ContainsFunc(v.held, goes) {
				out.Victims = append(out.Victims, v.req.Key)
			}
		}
		slices.SortFunc(out.Victims, compareKeys)
		return out
	}
	return nil
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// roomFor says that there is room for an entry as it is, and why it does not
// have it: it is kept free for others. It is false if there is none.
func (c *Core) roomFor(e *entry, now Instant) (Reason, bool) {
	if c.starts(e, now) {
		return Fits{}, true
	}
	f, ok := c.place(e, nil)
	if !ok {
		return nil, false
	}
	defer f.back()
	var out KeptFree
	for _, p := range slices.Concat(c.nominations, c.promises) {
		uses := func(h held) bool { return slices.Contains(p.nodes, h.site.id) || len(p.limits) > 0 }
		if p.entry != e && p.at > out.Until && slices.ContainsFunc(f.held, uses) {
			out = KeptFree{For: p.entry.req.Key, Until: p.at}
		}
	}
	return out, out.Until != 0
}

// starts reports whether an entry would start now, as Decide would see it.
func (c *Core) starts(e *entry, now Instant) bool {
	if !c.admits(e) || e.dueAt > now && c.heldBack(e, now) {
		return false
	}
	closed, _ := c.closedTo(e, now)
	f, ok := c.place(e, closed)
	if ok {
		f.back()
	}
	return ok
}

// blocked says that an entry's queue may not take it. What the whole cluster
// has too little of is said better by comparing with what is left.
func (c *Core) blocked(e *entry) Reason {
	if c.free4all() {
		return nil
	}
	if e.lost {
		return BlockedByQueue{Queue: e.req.Queue, Rule: RuleMissing}
	}
	b, ok := c.tree.Admit(e.queue, e.ask)
	if ok || b.Rule == queue.RuleCapacity {
		return nil
	}
	out := BlockedByQueue{Queue: c.tree.Name(b.Queue), Rule: ruleNames[b.Rule]}
	if b.Rule == queue.RuleGone || b.Rule == queue.RuleStopped {
		return out
	}
	out.Resource = c.tree.Classes().Name(b.Class)
	out.Allowed, out.Used, out.Missing, out.Asked = b.Allowed, b.Used, b.Missing, e.ask[b.Class]
	out.Holders = c.queueHolders(b.Queue, b.Class)
	for _, source := range c.tree.Borrowers(b.Queue, b.Class, nil) {
		out.Borrowers = append(out.Borrowers, QueueBorrower{Queue: c.tree.Name(source.Queue), Amount: source.Amount})
	}
	return out
}

// queueHolders are who holds most of a class in a queue and below.
func (c *Core) queueHolders(q queue.Queue, class queue.Class) []QueueHolder {
	var out []QueueHolder
	for _, e := range c.running {
		if !c.below(e.queue, q) {
			continue
		}
		var sum int64
		for i := range e.held {
			sum += e.held[i].charged[class]
		}
		if sum > 0 {
			out = append(out, QueueHolder{Key: e.req.Key, Pod: e.req.Pod, Amount: sum, Since: e.since})
		}
	}
	slices.SortFunc(out, func(a, b QueueHolder) int { return cmp.Or(cmp.Compare(b.Amount, a.Amount), compareKeys(a.Key, b.Key)) })
	return out
}

// below reports whether a queue is another one, or below it.
func (c *Core) below(q, above queue.Queue) bool {
	for q != above {
		if q == queue.Root {
			return false
		}
		q = c.tree.Parent(q)
	}
	return true
}

// ruleNames are what rules are called in reasons.
var ruleNames = map[queue.Rule]QueueRule{
	queue.RuleGone: RuleGone, queue.RuleStopped: RuleStopped, queue.RuleLimit: RuleLimit,
	queue.RuleBorrowing: RuleBorrowing, queue.RuleReserved: RuleReserved, queue.RuleCapacity: RuleCapacity,
}

// position is an entry's place in the order of turns: first the overdue, as
// far as they may be favoured, then the others.
func (c *Core) position(e *entry, now Instant) *Position {
	c.overdue(now)
	due := slices.Clone(c.due)
	isDue := make(map[*entry]bool, len(due))
	for _, o := range due {
		isDue[o] = true
	}
	line := slices.Clone(due)
	for _, o := range c.inTurn(now) {
		if !isDue[o] {
			line = append(line, o)
		}
	}
	at := slices.Index(line, e)
	if at < 0 {
		return nil
	}
	p := &Position{Place: at + 1, Of: len(line)}
	for i, o := range line[:at] {
		switch {
		case o.req.Priority > e.req.Priority:
			p.Priority++
		case i < len(due):
			p.Overdue++
		case o.length < e.length:
			p.Shorter++
		case o.length == e.length && o.created() <= e.created():
			p.Older++
		default:
			p.Owed++
		}
	}
	return p
}

// Account explains the named gang, or lone pod, of a snapshot in full. It is
// false if the snapshot has no such request.
func Account(s Snapshot, key Key, pod bool) (Explanation, bool) {
	at := slices.IndexFunc(s.Requests, func(r Request) bool { return r.Key == key && r.Pod == pod })
	if at < 0 {
		return Explanation{}, false
	}
	c := NewCore(Options{})
	for _, e := range s.Ended {
		c.Observe(e.Evidence, e.Ran)
	}
	p, ok := c.Preview(s, s.Requests[at].UID)
	return p.Explanation, ok
}

// Preview is what a decision on a snapshot would do with one request.
type Preview struct {
	// Explanation says where the request stands after the decision.
	Explanation
	// Plan is where it would go; nil if it would not start now.
	Plan *Plan
	// Evictions are what would have to make room for it.
	Evictions []Eviction
}

// Preview decides on a snapshot and says what becomes of one request in it.
// The core must not have been told anything but what it may have learned from
// work that has ended, and is not to be used for anything else afterwards. It
// is false if the snapshot has no such request.
func (c *Core) Preview(s Snapshot, uid string) (Preview, bool) {
	at := slices.IndexFunc(s.Requests, func(r Request) bool { return r.UID == uid })
	if at < 0 {
		return Preview{}, false
	}
	if s.Requests[at].Finished && placements(s)[uid] == nil {
		return Preview{Explanation: Explanation{Reason: Finished{}}}, true
	}
	c.RecallMix(s.Mix)
	c.Sync(s)
	c.Recall(s.Usage, s.Users, s.Now)
	e := c.entries[uid]
	if e == nil {
		return Preview{}, false
	}
	if e.placed {
		x, ok := c.ExplainBy(NewForesight(s.Calibration), uid, s.Now)
		return Preview{Explanation: x}, ok
	}
	if r := c.notNow(e, s.Now); r == nil && s.Paused != "" {
		return Preview{Explanation: Explanation{Reason: Paused{Words: s.Paused}}}, true
	}
	result := c.Decide(s.Now)
	var out Preview
	for i := range result.Evictions {
		if result.Evictions[i].For == e.req.Key {
			out.Evictions = append(out.Evictions, result.Evictions[i])
		}
	}
	for i := range result.Plans {
		if result.Plans[i].UID == uid {
			out.Plan, out.Explanation = &result.Plans[i], Explanation{Reason: Fits{}}
			return out, true
		}
	}
	var ok bool
	out.Explanation, ok = c.ExplainBy(NewForesight(s.Calibration), uid, s.Now)
	return out, ok
}
