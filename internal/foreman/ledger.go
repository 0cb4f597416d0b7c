package foreman

import (
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// state is where a datum is.
type state byte

const (
	waiting   state = iota // for its files
	preparing              // its files are being written
	ready                  // in stock
	held                   // by a worker
	computed               // or failed for good; not yet recorded
	recorded
)

// entry is a datum and where it is.
type entry struct {
	Datum
	state state
	// tries is how often it was tried, failed whether that was for good.
	tries  int
	failed bool
	// fresh says that nobody but who has it, or had it last, was given its folder.
	fresh bool
	// arriving says that what a worker brought is being put into its place.
	arriving bool
	// brought is what its files have of the foreman's room; nil: nothing.
	brought *hold
	// worker has it, or had it last.
	worker  string
	outcome shift.Outcome
}

// hand is one worker as the ledger knows it.
type hand struct {
	member      string
	gpus        float64
	since, seen time.Time
	gone        bool
	busy        time.Duration
	has         map[int]bool
}

// ledger is the state of a work, as plain data. It does nothing by itself.
type ledger struct {
	entries []entry
	index   map[string]int
	queue   []int // waiting, who comes next first
	stock   []int // ready
	pending []int // computed
	hands   map[string]*hand
	// heldFor and idle are the GPU seconds of workers that are forgotten.
	heldFor, idle float64
	// limit is how often a datum is tried.
	limit int
	// failFast gives nothing out any more once a datum has failed.
	failFast bool
	stopped  bool
	counts   Counts
	making   int // preparing
}

func newLedger(datums []Datum, tries int, failFast bool) *ledger {
	l := &ledger{index: make(map[string]int, len(datums)), hands: map[string]*hand{}, limit: max(tries, 1), failFast: failFast}
	l.add(datums)
	return l
}

// add adds datums that are not known yet.
func (l *ledger) add(datums []Datum) {
	l.entries = slices.Grow(l.entries, len(datums))
	for _, d := range datums {
		if _, known := l.index[d.ID]; known {
			continue
		}
		l.index[d.ID] = len(l.entries)
		l.queue = append(l.queue, len(l.entries))
		l.entries = append(l.entries, entry{Datum: d})
		l.counts.Total++
	}
}

// next takes the datum that is to be prepared next.
func (l *ledger) next() (int, bool) {
	for len(l.queue) > 0 && !l.stopped {
		i := l.queue[0]
		l.queue = l.queue[1:]
		if l.entries[i].state != waiting {
			continue // a worker was done with it all the same
		}
		l.entries[i].state = preparing
		l.making++
		return i, true
	}
	return 0, false
}

// prepared notes that a datum's files are there; or why they are not, which no
// other try would change.
func (l *ledger) prepared(i int, problem string) {
	l.making--
	e := &l.entries[i]
	if e.state != preparing {
		return
	}
	if problem != "" {
		e.outcome = shift.Outcome{ID: e.ID, Exit: -1, Error: problem}
		l.fail(i)
		return
	}
	e.state = ready
	l.stock = append(l.stock, i)
}

// take gives a worker up to want datums of the stock, and not so many that
// others have none.
func (l *ledger) take(worker string, want int) []int {
	if l.stopped {
		return nil
	}
	left := len(l.stock) + len(l.queue) + l.making
	want = min(want, max(1, left/(2*max(1, l.present()))), len(l.stock))
	given := slices.Clone(l.stock[:max(want, 0)])
	l.stock = l.stock[len(given):]
	h := l.hands[worker]
	for _, i := range given {
		l.entries[i].state, l.entries[i].worker = held, worker
		h.has[i] = true
	}
	return given
}

// present is how many workers there are.
func (l *ledger) present() int {
	n := 0
	for _, h := range l.hands {
		if !h.gone {
			n++
		}
	}
	return n
}

// mostHands is how many workers of a work are known at a time: several times as many
// as the job of a stage has members.
const mostHands = 4096

// admits says whether there is a place for a worker. Where there is none left, those
// that are gone are forgotten.
func (l *ledger) admits(worker string) bool {
	if l.hands[worker] != nil || len(l.hands) < mostHands {
		return true
	}
	for name, h := range l.hands {
		if h.gone && len(h.has) == 0 {
			there, without := h.seconds(h.seen)
			l.heldFor, l.idle = l.heldFor+there, l.idle+without
			delete(l.hands, name)
		}
	}
	return len(l.hands) < mostHands
}

// see notes a sign of life. Who has the same place in the job and was there
// before is not any more: what it had is returned.
func (l *ledger) see(r *shift.Request, now time.Time) (lost []int) {
	h := l.hands[r.Worker]
	if h == nil {
		h = &hand{member: r.Member, gpus: r.GPUs, since: now, has: map[int]bool{}}
		l.hands[r.Worker] = h
		for name, other := range l.hands {
			if name != r.Worker && r.Member != "" && other.member == r.Member && !other.gone {
				lost = append(lost, l.leave(other)...)
			}
		}
	}
	h.seen, h.gone = now, r.Leaving
	return lost
}

// missed are datums that a worker has not heard of, although they were given to it: it
// asks for more, and names all that it has. The answer was lost on its way.
func (l *ledger) missed(r *shift.Request) (lost []int) {
	for i := range l.hands[r.Worker].has {
		if e := &l.entries[i]; e.state == held && !e.arriving && !slices.Contains(r.Has, e.ID) {
			lost = append(lost, i)
		}
	}
	slices.Sort(lost)
	return lost
}

// leave takes what a worker has from it.
func (l *ledger) leave(h *hand) (lost []int) {
	for i := range h.has {
		lost = append(lost, i)
	}
	slices.Sort(lost)
	clear(h.has)
	h.gone = true
	return lost
}

// expire takes what workers have that were not heard of since before.
func (l *ledger) expire(before time.Time) (lost []int) {
	for _, h := range l.hands {
		if !h.gone && h.seen.Before(before) {
			lost = append(lost, l.leave(h)...)
		}
	}
	slices.Sort(lost)
	return lost
}

// again has a datum wait once more, before the others. One that was begun has
// been tried.
func (l *ledger) again(i int, begun bool, problem string) {
	e := &l.entries[i]
	if e.state != held || e.arriving {
		return
	}
	if begun {
		l.tried(i, shift.Outcome{ID: e.ID, Exit: -1, Error: problem, Worker: e.worker})
		return
	}
	e.state = waiting
	l.queue = slices.Insert(l.queue, 0, i)
}

// former is the worker that is taken to have what a foreman before had given out,
// until who really has it says so, or a time is over.
const former = ""

// leftBy notes that somebody may still have a datum.
func (l *ledger) leftBy(i int, seen time.Time) {
	e := &l.entries[i]
	if e.state != waiting {
		return
	}
	h := l.hands[former]
	if h == nil {
		h = &hand{since: seen, seen: seen, has: map[int]bool{}}
		l.hands[former] = h
	}
	e.state, e.worker = held, former
	h.has[i] = true
}

// adoptable says whether a datum that a worker says it has is to be left to it.
func (l *ledger) adoptable(i int, worker string) bool {
	e := &l.entries[i]
	if e.arriving || e.tries > 0 && e.outcome.Worker == worker {
		return false // it has said what became of it since
	}
	return e.state == waiting || e.state == ready || e.state == held && e.worker == former
}

// claim gives a datum to a worker that has it, or that brings what it made of it. It
// returns false where the datum's files are just being written, or have just come.
func (l *ledger) claim(i int, worker string) bool {
	e := &l.entries[i]
	switch {
	case e.state == preparing, e.arriving:
		return false
	case e.state == ready:
		if at := slices.Index(l.stock, i); at >= 0 {
			l.stock = slices.Delete(l.stock, at, at+1)
		}
	}
	if h := l.hands[e.worker]; h != nil && e.worker != worker {
		delete(h.has, i)
	}
	e.state, e.worker = held, worker
	if h := l.hands[worker]; h != nil && !h.gone {
		h.has[i] = true
	}
	return true
}

// done notes what became of a datum, whoever computed it; it says whether that
// is news.
func (l *ledger) done(o shift.Outcome) bool {
	i, ok := l.index[o.ID]
	if !ok || l.entries[i].state >= computed {
		return false
	}
	if h := l.hands[l.entries[i].worker]; h != nil {
		delete(h.has, i)
	}
	if h := l.hands[o.Worker]; h != nil {
		h.busy += o.Took
		delete(h.has, i)
	}
	if at := slices.Index(l.stock, i); l.entries[i].state == ready && at >= 0 {
		l.stock = slices.Delete(l.stock, at, at+1)
	}
	l.tried(i, o)
	return true
}

// tried notes a try.
func (l *ledger) tried(i int, o shift.Outcome) {
	e := &l.entries[i]
	e.tries++
	e.outcome = o
	switch {
	case o.Error == "":
		e.state = computed
		l.pending = append(l.pending, i)
	case e.tries < l.limit && !l.stopped && !o.Final:
		e.state = waiting
		l.queue = slices.Insert(l.queue, 0, i)
	default:
		l.fail(i)
	}
}

// fail has a datum fail for good.
func (l *ledger) fail(i int) {
	l.entries[i].state, l.entries[i].failed = computed, true
	l.pending = append(l.pending, i)
	l.stopped = l.stopped || l.failFast
}

// spoil fails a computed datum for good that is not recorded yet. It reports whether
// there is such a datum.
func (l *ledger) spoil(s *SpoiledError) bool {
	i, known := l.index[s.ID]
	if !known || l.entries[i].failed || l.entries[i].state != computed {
		return false
	}
	e := &l.entries[i]
	e.failed, e.outcome.Exit, e.outcome.Error = true, -1, s.Error()
	l.stopped = l.stopped || l.failFast
	return true
}

// drain is what is to be recorded.
func (l *ledger) drain() []int {
	out := l.pending
	l.pending = nil
	return out
}

// keep notes that datums are recorded.
func (l *ledger) keep(which []int) {
	for _, i := range which {
		l.entries[i].state = recorded
		if l.entries[i].failed {
			l.counts.Failed++
		} else {
			l.counts.Computed++
		}
	}
}

// empty says that nobody who asks will be given anything.
func (l *ledger) empty() bool {
	return l.stopped || len(l.queue) == 0 && l.making == 0 && len(l.stock) == 0
}

// over says that all is recorded, or that what is not never will be.
func (l *ledger) over() bool {
	if len(l.pending) > 0 {
		return false
	}
	return l.counts.Computed+l.counts.Failed == l.counts.Total || l.stopped && l.counts.Failed > 0
}

// gpus are the seconds for which workers held GPUs, and for which they did so
// without computing.
func (l *ledger) gpus(now time.Time) (heldFor, idle float64) {
	heldFor, idle = l.heldFor, l.idle
	for _, h := range l.hands {
		until := h.seen
		if !h.gone {
			until = now
		}
		there, without := h.seconds(until)
		heldFor, idle = heldFor+there, idle+without
	}
	return heldFor, idle
}

// seconds are those for which a worker held GPUs until then, and did so without
// computing.
func (h *hand) seconds(until time.Time) (heldFor, idle float64) {
	there := until.Sub(h.since)
	return h.gpus * there.Seconds(), h.gpus * max(0, there-h.busy).Seconds()
}
