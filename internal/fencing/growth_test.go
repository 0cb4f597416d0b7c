package fencing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/fencing"
)

// The model of further replicas: a gang whose attempts run, schedulers that
// follow one another, and further replicas that are planned, given back and
// planned again on the same devices, while requests for them arrive at any
// time, twice or never. How a scheduler takes over is one step here: that it
// may be one is what the larger model shows.

// maxGrowths is how many further replicas are planned at most; each is a member
// of its own.
const maxGrowths = 2

// elasticGang is a configuration.
type elasticGang struct {
	growths, devices int
	epochs, attempts uint8
	// orderly lets schedulers hand over in order, besides being replaced.
	orderly bool
	off     guard
}

// The guards of further replicas.
const (
	notesReturned guard = "that a further replica is given back is noted before it is let go"
	readsMarkLive guard = "what was given back is read past the cache"
	knowsByUID    guard = "a replica is known by the UID of its placement, not by its name"
	returnsInStep guard = "one that came twice is marked before its pod is looked for"
	judgesEarlier guard = "placements of earlier attempts start nothing"
	// The same as wordsAnswered, for further replicas.
	growthsAnswered guard = "the word of an orderly hand-over is said only when every replica was answered"
)

// growth is one further replica's life, in the order in which they are planned.
type growth struct {
	plan         plan  // of the scheduler; its attempt is the gang's
	epoch        uint8 // of who planned it
	sent         uint8 // requests under way
	seen         bool  // the scheduler's cache shows it
	here, marked bool
	stamp        uint8
	was, second  bool // it was given back before; this one came after that
	known        bool // the controller has found it to be none that came twice
	phase        uint8
	orphan, had  bool // the pod's placement is gone; there ever was a pod
	deleting     bool
	own, strays  bool // pods under way: of this placement, of one that is gone
}

func (g growth) of() int64 { return int64(max(g.epoch, g.stamp)) }

// elasticState is a state; a growth's number is its place, from 1.
type elasticState struct {
	epoch    uint8 // it leads
	settled  uint8 // from there to the one before is a chain
	attempt  uint8
	phase    uint8 // placed, draining, done
	mark     uint8 // the last planned of those given back
	cached   uint8 // the mark as the controller's cache shows it
	wanted   uint8 // the attempt that the scheduler's cache shows under way
	planned  uint8
	growths  [maxGrowths]growth
	stage    uint8 // of the controller: 0, allowed, undoing, returning, looked
	at       uint8 // the growth that it looks at, from 1
	replaced bool  // the placement that it saw is gone
	found    bool  // while draining: it found no pod
}

// Stages of the controller, beside those of the larger model.
const (
	returning = 20 + iota
	looked
)

func (elasticGang) initial() elasticState {
	return elasticState{epoch: 1, settled: 1, attempt: 1, phase: placed, wanted: 1}
}

func (elasticGang) tidy(s *elasticState) {
	for i := range s.growths {
		if p := &s.growths[i].plan; p.stage == idle || p.stage == written {
			p.unclear = false
		}
	}
}

func (elasticGang) twins(s elasticState) []elasticState { return []elasticState{s} }

func (m elasticGang) on(g guard) bool { return m.off != g }

// number is a growth's number as the rule has it.
func number(s *elasticState, i uint8) fencing.Growth {
	if i == 0 {
		return fencing.Growth{}
	}
	return fencing.Growth{Epoch: int64(s.growths[i-1].epoch), Number: int64(i)}
}

// fence is what the fence says.
func (s *elasticState) fence() fencing.State {
	f := fencing.State{Epoch: int64(s.epoch), Settled: int64(s.settled)}
	if s.settled < s.epoch {
		f.Closed = f.Epoch - 1
	}
	return f
}

func (m elasticGang) broken(s *elasticState) string {
	holder := [maxGrowths]int{}
	for i := range m.growths {
		g := &s.growths[i]
		if g.phase != running {
			continue
		}
		if other := holder[g.plan.device]; other != 0 {
			return fmt.Sprintf("device %d is used by replica %d and by replica %d", g.plan.device, other, i+1)
		}
		holder[g.plan.device] = i + 1
		switch {
		case g.orphan || !g.here:
			return fmt.Sprintf("replica %d runs, and its placement has been given back", i+1)
		case g.second:
			return fmt.Sprintf("replica %d runs, and its placement came twice", i+1)
		case g.plan.attempt != s.attempt:
			return fmt.Sprintf("replica %d of attempt %d runs in attempt %d", i+1, g.plan.attempt, s.attempt)
		}
	}
	return ""
}

func (m elasticGang) goal(s *elasticState) bool {
	for i := range m.growths {
		if g := &s.growths[i]; g.here || g.phase != none && g.phase != ended {
			return false
		}
	}
	return s.phase == done
}

func (m elasticGang) successors(s *elasticState, emit func(elasticState, label)) {
	m.gang(s, emit)
	m.grows(s, emit)
	for i := range m.growths {
		m.planned(s, i, emit)
		m.arrives(s, i, emit)
		m.runs(s, i, emit)
	}
	m.controls(s, emit)
}

// gang is how attempts end, and how schedulers follow one another.
func (m elasticGang) gang(s *elasticState, emit func(elasticState, label)) {
	next := *s
	if s.phase == placed {
		next.phase, next.stage, next.at = draining, 0, 0
		emit(next, label{kind: attemptDrains, a: s.attempt})
	}
	if s.epoch < m.epochs {
		m.taken(s, s.fence(), emit)
		closed, ok := s.fence().Close(int64(s.epoch))
		for i := range m.growths {
			ok = ok && (answered(s.growths[i].plan) || !m.on(growthsAnswered))
		}
		if m.orderly && ok {
			m.taken(s, closed, emit)
		}
	}
}

// taken is how a scheduler takes over, with the fence as it finds it.
func (m elasticGang) taken(s *elasticState, found fencing.State, emit func(elasticState, label)) {
	next := *s
	fence := found.Next(0)
	next.epoch, next.wanted = uint8(fence.Epoch), 0
	for i := range m.growths {
		g := &next.growths[i]
		g.plan.stage, g.seen = idle, g.here
		if g.here && fence.Adopts(g.of()) {
			g.stamp = next.epoch
		}
	}
	settled, _ := fence.Settle(fence.Epoch)
	next.settled = uint8(settled.Settled)
	emit(next, label{kind: growthTakenOver, a: next.epoch, b: next.settled})
}

// grows is what the scheduler plans anew, and what it sees.
func (m elasticGang) grows(s *elasticState, emit func(elasticState, label)) {
	if int(s.planned) < m.growths && s.wanted != 0 {
		for device := range uint8(m.devices) {
			free := true
			for i := range m.growths {
				g := &s.growths[i]
				free = free && (!g.seen && g.plan.stage == idle || g.plan.device != device)
			}
			if !free {
				continue
			}
			next := *s
			g := &next.growths[s.planned]
			g.plan, g.epoch = plan{stage: check, attempt: s.wanted, device: device}, s.epoch
			next.planned++
			emit(next, label{growthPlanned, next.planned, device, s.wanted})
			break // the devices are alike
		}
	}
	next := *s
	for i := range m.growths {
		g := &next.growths[i]
		g.seen = g.here && s.fence().Counts(g.of())
		if g.plan.stage == written {
			g.plan.stage = idle
		}
	}
	if next != *s {
		emit(next, label{kind: growthsShown})
	}
	next = *s
	if next.wanted = 0; s.phase == placed {
		next.wanted = s.attempt
	}
	if next != *s {
		emit(next, label{kind: attemptShown})
	}
}

// planned is how one plan is written, and how what is there is ordered back.
func (m elasticGang) planned(s *elasticState, i int, emit func(elasticState, label)) {
	g := &s.growths[i]
	next := *s
	mine := &next.growths[i]
	a := uint8(i + 1)
	switch g.plan.stage {
	case check:
		if s.phase == placed && s.attempt == g.plan.attempt || !fencing.Drops(g.plan.unclear) {
			mine.plan.stage = await
			mine.sent++
			emit(next, label{kind: growthSent, a: a})
		} else {
			mine.plan.stage = idle
			emit(next, label{kind: growthDropped, a: a})
		}
	case await:
		if !g.plan.unclear { // it is sent twice at most
			mine.plan.stage, mine.plan.unclear = check, true
			emit(next, label{kind: growthUnanswered, a: a})
		}
	}
	if g.seen && g.here && !g.marked {
		next = *s
		next.growths[i].marked = true
		emit(next, label{kind: growthOrderedBack, a: a})
	}
}

// arrives are the requests that reach the API server.
func (m elasticGang) arrives(s *elasticState, i int, emit func(elasticState, label)) {
	g := &s.growths[i]
	a := uint8(i + 1)
	if g.sent > 0 {
		next := *s
		mine := &next.growths[i]
		mine.sent--
		if !g.here {
			mine.here, mine.marked, mine.stamp, mine.second, mine.known = true, false, 0, g.was, false
		}
		if g.plan.stage == await && g.epoch == s.epoch {
			mine.plan.stage = written
		}
		emit(next, label{kind: growthArrives, a: a})
	}
	for _, stray := range []bool{false, true} {
		if stray && !g.strays || !stray && !g.own {
			continue
		}
		next := *s
		mine := &next.growths[i]
		if stray {
			mine.strays = false
		} else {
			mine.own = false
		}
		if g.phase == none {
			mine.phase, mine.orphan, mine.deleting = made, stray, false
			mine.had = !m.on(knowsByUID)
		}
		emit(next, label{kind: growthPodArrives, a: a})
	}
}

// runs is what the node does.
func (m elasticGang) runs(s *elasticState, i int, emit func(elasticState, label)) {
	g := &s.growths[i]
	next := *s
	mine := &next.growths[i]
	a := uint8(i + 1)
	switch {
	case g.phase == none:
	case g.deleting:
		mine.phase, mine.deleting, mine.orphan = none, false, false
		emit(next, label{kind: growthPodGone, a: a})
	case g.phase == made:
		exists := ""
		if g.here {
			exists = "its own"
		}
		if g.here && g.orphan {
			exists = "another of that name"
		}
		if mine.phase = ended; fencing.MayRun("its own", exists, g.marked) {
			mine.phase = passed
		}
		emit(next, label{kind: growthAdmitted, a: a, b: mine.phase})
	case g.phase == passed:
		mine.phase = running
		emit(next, label{kind: growthStarts, a: a})
	}
}

// controls is what the gang's controller does.
func (m elasticGang) controls(s *elasticState, emit func(elasticState, label)) {
	if s.stage != 0 || s.anyKnown() {
		next := *s
		next.stage, next.at, next.replaced, next.found = 0, 0, false, false
		for i := range m.growths {
			next.growths[i].known = false
		}
		emit(next, label{kind: growthForgotten})
	}
	if s.cached != s.mark && !m.on(readsMarkLive) {
		next := *s
		next.cached = s.mark
		emit(next, label{kind: markShown})
	}
	for i := range m.growths {
		g := &s.growths[i]
		if gone := !g.here || s.phase != placed; (gone || g.phase == ended) && g.phase != none && !g.deleting {
			next := *s
			next.growths[i].deleting = true
			emit(next, label{kind: growthPodDeleted, a: uint8(i + 1)})
		}
	}
	switch {
	case s.phase == draining:
		m.drains(s, emit)
	case s.stage == 0:
		for i := range m.growths {
			if s.growths[i].here {
				m.judges(s, i, emit)
			}
		}
	default:
		m.handles(s, emit)
	}
}

func (s *elasticState) anyKnown() bool {
	for i := range s.growths {
		if s.growths[i].known {
			return true
		}
	}
	return false
}

// judges looks at a placement, and finds what becomes of it.
func (m elasticGang) judges(s *elasticState, i int, emit func(elasticState, label)) {
	g := &s.growths[i]
	next := *s
	next.at, next.replaced = uint8(i+1), false
	verdict := s.fence().Judge(g.of())
	here := s.phase == placed && (g.plan.attempt == s.attempt || !m.on(judgesEarlier))
	mark := number(s, s.mark)
	if !m.on(readsMarkLive) {
		mark = number(s, s.cached)
	}
	known := g.known || g.phase != none && !g.orphan
	if !m.on(knowsByUID) {
		known = known || g.had
	}
	switch {
	case g.marked && (verdict == fencing.Valid || g.known):
		next.stage = returning
	case g.known:
		next.stage = allowed
	case verdict != fencing.Valid || !here:
		next.stage = undoing
	case fencing.Returned(mark, number(s, uint8(i+1)), known):
		if next.stage = returning; !m.on(returnsInStep) {
			next.stage = looked
		}
	default:
		next.stage, next.growths[i].known = allowed, true
	}
	emit(next, label{kind: growthJudged, a: next.at, b: next.stage})
}

// handles does what was found.
func (m elasticGang) handles(s *elasticState, emit func(elasticState, label)) {
	i := int(s.at) - 1
	g := &s.growths[i]
	a := s.at
	leave := *s
	leave.stage, leave.at, leave.replaced = 0, 0, false
	emit(leave, label{kind: growthLeft, a: a})
	next := *s
	mine := &next.growths[i]
	switch s.stage {
	case allowed:
		if s.phase != placed || g.phase != none {
			return
		}
		mine.own, mine.strays = g.own || !s.replaced, g.strays || s.replaced
		if next != *s {
			emit(next, label{kind: growthPodSent, a: a})
		}
	case undoing: // nothing was ever made of it
		switch {
		case s.replaced || !g.here:
		case !g.marked:
			mine.marked = true
			emit(next, label{kind: growthMarked, a: a})
		default:
			m.free(&next, i)
			emit(next, label{kind: growthFreed, a: a})
		}
	case returning:
		m.returns(s, i, emit)
	case looked:
		if !s.replaced && g.here {
			m.free(&next, i)
			next.stage, next.at, next.replaced = 0, 0, false
			emit(next, label{kind: growthFreed, a: a})
		}
	}
}

// returns gives a replica back: it notes that, marks the placement, deletes the
// pod, and looks for it.
func (m elasticGang) returns(s *elasticState, i int, emit func(elasticState, label)) {
	g := &s.growths[i]
	next := *s
	a := uint8(i + 1)
	if s.replaced || !g.here {
		return
	}
	if m.on(notesReturned) && g.plan.attempt == s.attempt && number(s, a).After(number(s, s.mark)) {
		next.mark = a
		emit(next, label{kind: growthNoted, a: a})
		return
	}
	pods := 0
	if g.phase != none {
		pods = 1
	}
	switch fencing.Release(g.marked, pods) {
	case fencing.Mark:
		next.growths[i].marked = true
		emit(next, label{kind: growthMarked, a: a})
	case fencing.Wait:
		if !g.deleting {
			next.growths[i].deleting = true
			emit(next, label{kind: growthPodDeleted, a: a})
		}
	case fencing.Free:
		next.stage = looked
		emit(next, label{kind: growthLooked, a: a})
	}
}

// free lets a placement go: what was made from it is an orphan.
func (m elasticGang) free(s *elasticState, i int) {
	g := &s.growths[i]
	g.here, g.marked, g.stamp, g.second, g.known, g.was = false, false, 0, false, false, true
	if g.phase != none {
		g.orphan = true
	}
	if g.own {
		g.own, g.strays = false, true
	}
	if int(s.at) == i+1 {
		s.replaced = true
	}
}

// drains gives back an attempt with all that extends it, and begins the next.
func (m elasticGang) drains(s *elasticState, emit func(elasticState, label)) {
	left, marked, pods := false, true, 0
	for i := range m.growths {
		g := &s.growths[i]
		if g.phase != none {
			pods++
		}
		if !g.here {
			continue
		}
		left = left || g.marked
		if !g.marked {
			marked = false
			if !s.found {
				next := *s
				next.growths[i].marked = true
				emit(next, label{kind: growthMarked, a: uint8(i + 1)})
			}
		} else if s.found {
			next := *s
			m.free(&next, i)
			emit(next, label{kind: growthFreed, a: uint8(i + 1)})
		}
	}
	next := *s
	switch {
	case !s.found:
		if fencing.Release(marked, pods) == fencing.Free {
			next.found = true
			emit(next, label{kind: attemptLooked, a: s.attempt})
		}
	case !left:
		next.found = false
		if next.phase = done; s.attempt < m.attempts {
			next.phase, next.attempt, next.mark, next.cached = placed, s.attempt+1, 0, 0
		}
		emit(next, label{kind: attemptReleased, a: s.attempt})
	}
}

// What happens to further replicas.
const (
	attemptDrains kind = firstOfGrowth + iota
	attemptShown
	attemptLooked
	attemptReleased
	markShown
	growthTakenOver
	growthPlanned
	growthsShown
	growthDropped
	growthSent
	growthUnanswered
	growthOrderedBack
	growthArrives
	growthPodArrives
	growthPodGone
	growthAdmitted
	growthStarts
	growthForgotten
	growthPodDeleted
	growthJudged
	growthLeft
	growthPodSent
	growthMarked
	growthFreed
	growthNoted
	growthLooked
)

// growth is a step of that in words.
func (l label) growth() string {
	r := fmt.Sprintf("replica %d", l.a)
	p := "the placement of " + r
	judged := map[uint8]string{allowed: "may start", undoing: "is undone", returning: "is given back", looked: "is let go"}
	words := map[kind]string{
		attemptDrains:     fmt.Sprintf("attempt %d drains", l.a),
		attemptShown:      "the scheduler's cache shows the gang as it is",
		attemptLooked:     fmt.Sprintf("the controller finds no pod of attempt %d", l.a),
		attemptReleased:   fmt.Sprintf("attempt %d holds nothing any more", l.a),
		markShown:         "the controller's cache shows what was given back",
		growthTakenOver:   fmt.Sprintf("a scheduler takes over, with epoch %d, settled %d", l.a, l.b),
		growthPlanned:     fmt.Sprintf("%s of attempt %d is planned on device %d", r, l.c, l.b),
		growthsShown:      "the scheduler's cache shows the placements as they are",
		growthDropped:     "the scheduler drops the plan of " + r,
		growthSent:        "the scheduler checks the gang, and sends " + p,
		growthUnanswered:  "the scheduler hears nothing of " + p,
		growthOrderedBack: "the scheduler orders back " + r,
		growthArrives:     p + " arrives",
		growthPodArrives:  "the pod of " + r + " arrives",
		growthPodGone:     "the node stops " + r + ", and its pod is gone",
		growthAdmitted:    "the node looks at " + p + ", and decides",
		growthStarts:      "the node starts " + r,
		growthForgotten:   "the controller begins anew",
		growthPodDeleted:  "the pod of " + r + " is deleted",
		growthJudged:      "the controller finds that " + p + " " + judged[l.b],
		growthLeft:        "the controller turns to something else",
		growthPodSent:     "the controller sends the pod of " + r,
		growthMarked:      p + " is marked",
		growthFreed:       p + " is gone",
		growthNoted:       "that " + r + " is given back is noted",
		growthLooked:      "the controller finds no pod of " + r,
	}
	return words[l.kind]
}

// The configurations of further replicas.
var (
	alone       = elasticGang{growths: 1, devices: 1, epochs: 1, attempts: 1}
	oneDevice   = elasticGang{growths: 2, devices: 1, epochs: 2, attempts: 1}
	twoDevices  = elasticGang{growths: 2, devices: 2, epochs: 1, attempts: 1}
	twoAttempts = elasticGang{growths: 2, devices: 1, epochs: 1, attempts: 2}
	handedOver  = elasticGang{growths: 2, devices: 1, epochs: 2, attempts: 1, orderly: true}
)

// TestEveryInterleavingOfFurtherReplicas explores every order of events. In no
// state is a device used twice, or runs what was given back, what came twice,
// or what is of another attempt; from every state everything comes to its end.
func TestEveryInterleavingOfFurtherReplicas(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model elasticGang
		large bool
	}{
		{"one replica", alone, false},
		{"one device, and a takeover", oneDevice, true},
		{"two devices", twoDevices, true},
		{"two attempts", twoAttempts, true},
		{"one device, and a hand-over", handedOver, true},
	} {
		if tt.large && (raced || testing.Short()) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			r := explore(tt.model)
			if r.broken != "" {
				t.Fatal(r)
			}
			t.Logf("%s, in %s", r, time.Since(begin).Round(time.Millisecond))
		})
	}
}

// TestEveryGuardOfFurtherReplicasIsNeeded switches off one after the other.
func TestEveryGuardOfFurtherReplicasIsNeeded(t *testing.T) {
	for _, tt := range []struct {
		off   guard
		model elasticGang
		want  string
	}{
		{notesReturned, oneDevice, "came twice"},
		{readsMarkLive, oneDevice, "came twice"},
		{knowsByUID, oneDevice, "came twice"},
		{returnsInStep, twoDevices, "has been given back"},
		{judgesEarlier, twoAttempts, "of attempt 1 runs in attempt 2"},
		{growthsAnswered, handedOver, "is used by"},
	} {
		t.Run(string(tt.off), func(t *testing.T) {
			m := tt.model
			m.off = tt.off
			r := explore(m)
			t.Logf("without it: %s", r)
			if !strings.Contains(r.broken, tt.want) || len(r.trace) == 0 {
				t.Errorf("found %q; want what contains %q", r.broken, tt.want)
			}
		})
	}
}
