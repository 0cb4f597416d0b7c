package fencing_test

import (
	"fmt"

	"github.com/muster-dev/muster/internal/fencing"
)

// The model: two schedulers, the controllers of one or two gangs, a foreign
// pod, a node and an API server, as small as they can be and still go wrong in
// every way that the real ones can. Requests are sets of what is under way:
// each arrives at any time, later than anything else, or never. Whoever waits
// for an answer may be told that it was lost. Schedulers and controllers
// forget everything at any time. Caches show what was true at some time before.
// The decisions are those of package fencing, called, not copied.

// The sizes that a state has room for.
const (
	maxGangs      = 2
	maxMembers    = 2
	maxSchedulers = 2
	maxAttempts   = 4
)

// model is a configuration.
type model struct {
	gangs, members, devices int
	foreign                 bool
	// again lets requests be sent a second time while the first is under way.
	again bool
	// orderly lets schedulers hand over in order, besides being replaced.
	orderly bool
	// older lets the second scheduler in a row, and the controllers, be of a
	// version that knows nothing of that.
	older bool
	// epochs is how many takeovers there are; fails, how many attempts of each
	// gang end without success.
	epochs, fails uint8
	// off is the guard that is switched off.
	off guard
}

// guard is one thing that the protocol relies on.
type guard string

// Phases of gangs, pods and the foreign pod; stages of the others.
const (
	pending = iota
	placed
	draining
	done
)

const (
	none = iota
	made
	passed
	running
	ended
)

const (
	down = iota
	listing
	adopting
	leading
)

const (
	idle = iota
	check
	send
	await
	written
)

const (
	saw = iota + 1
	judging
	allowed
	undoing
	listed
)

type placement struct {
	here, marked  bool
	epoch, device uint8 // the epoch is that of the stamp, if there is one
	stamps        uint8 // under way, of those that would still succeed; bit: epoch
}

func (p placement) of() int64 { return int64(p.epoch) }

type pod struct {
	phase, attempt, device uint8
	// orphan: the Placement that it was made from is gone.
	orphan, deleting bool
}

type gang struct {
	phase   uint8
	attempt uint8
	fails   uint8
	ending  bool // the attempt that drains was the last
}

func (g gang) holds() bool { return g.phase == placed || g.phase == draining }

type plan struct {
	stage, attempt, device uint8
	// unclear: a write of it may be under way. changed: the pod is no longer
	// as it was planned.
	unclear, changed bool
}

type scheduler struct {
	stage, epoch uint8
	old          bool
	todo         [maxGangs]uint8 // bit: attempt
	todoPod      bool
	// The cache.
	attempt [maxGangs]uint8
	waiting [maxGangs]bool
	counted [maxGangs]uint8 // bit: attempt
	device  [maxGangs]uint8 // bit: attempt; the device of that attempt
	podNow  bool            // the pod is cached as it is now
	podOn   uint8           // its device, from 1; 0: not bound
	highest [maxGangs]uint8
	plans   [maxGangs]plan
	bind    plan
}

type controller struct {
	stage, attempt uint8
	orphan         bool
	epoch          int8 // of the Placement as it was seen
	fence          fence
}

type fence struct{ epoch, settled, closed uint8 }

func (f fence) state() fencing.State {
	return fencing.State{Epoch: int64(f.epoch), Settled: int64(f.settled), Closed: int64(f.closed)}
}

func fenceOf(s fencing.State) fence { return fence{uint8(s.Epoch), uint8(s.Settled), uint8(s.Closed)} }

type foreignPod struct{ phase, device uint8 }

type state struct {
	// First, so that nothing is padded. Of those sent twice, the second one is
	// in makeAgain, and in createAgain.
	makes, makeAgain [maxGangs][maxMembers]uint16
	fence            fence
	gangs            [maxGangs]gang
	placements       [maxGangs][maxAttempts + 1]placement
	pods             [maxGangs][maxMembers]pod
	foreign          foreignPod
	// Under way: Placements by epoch and device, pods by attempt, device and
	// whether they are orphans, bindings by epoch and device.
	creates, createAgain [maxGangs][maxAttempts + 1]uint8
	binds                uint8
	// words are those that schedulers hand over in order; bit: epoch.
	words       uint8
	schedulers  [maxSchedulers]scheduler
	controllers [maxGangs]controller
}

func (model) initial() state { return state{} }

// on reports whether a guard is switched on.
func (m model) on(g guard) bool { return m.off != g }

// successors calls emit with everything that can happen next.
func (m model) successors(s *state, emit func(state, label)) {
	for i := range maxSchedulers {
		m.scheduler(s, i, emit)
	}
	for g := range m.gangs {
		m.arrivals(s, g, emit)
		m.controller(s, g, emit)
		m.node(s, g, emit)
	}
	if m.foreign {
		m.foreignPod(s, emit)
	}
	m.wordArrives(s, emit)
}

// tidy removes from a state what can make no difference any more.
func (m model) tidy(s *state) {
	if m.on(wordsSwapped) {
		s.words &= 1 << s.fence.epoch
	}
	for i := range s.schedulers {
		me := &s.schedulers[i]
		for g := range m.gangs {
			if me.highest[g] <= me.attempt[g] {
				me.highest[g] = 0
			}
		}
		if me.stage == down || !s.fence.state().Deposes(int64(me.epoch)) || !m.on(bindsChecked) || !m.on(settlesOnce) || !m.on(wordsLast) {
			continue
		}
		// It has been replaced: it can only send what it has checked already.
		was, left := *me, false
		*me = scheduler{stage: was.stage, epoch: was.epoch, old: was.old}
		for g := range m.gangs {
			if was.plans[g].stage == send {
				me.plans[g], left = was.plans[g], true
			}
			if was.stage == adopting {
				me.todo[g] = was.todo[g]
				left = left || was.todo[g] != 0
			}
		}
		if was.bind.stage == send {
			me.bind, left = was.bind, true
		}
		me.todoPod = was.todoPod
		left = left || was.stage == listing || was.todoPod
		if !left {
			*me = scheduler{}
		}
	}
}

// twins are a state and those that differ from it in names alone.
func (m model) twins(s state) []state {
	swapped := s
	swapped.schedulers[0], swapped.schedulers[1] = s.schedulers[1], s.schedulers[0]
	out := []state{s, swapped}
	if m.gangs < 2 {
		return out
	}
	for _, t := range []state{s, swapped} {
		swap(&t.gangs)
		swap(&t.placements)
		swap(&t.pods)
		swap(&t.creates)
		swap(&t.makes)
		swap(&t.makeAgain)
		swap(&t.createAgain)
		swap(&t.controllers)
		for i := range t.schedulers {
			me := &t.schedulers[i]
			swap(&me.todo)
			swap(&me.attempt)
			swap(&me.waiting)
			swap(&me.counted)
			swap(&me.device)
			swap(&me.highest)
			swap(&me.plans)
		}
		out = append(out, t)
	}
	return out
}

func swap[T any](pair *[maxGangs]T) { pair[0], pair[1] = pair[1], pair[0] }

// broken says what does not hold in a state.
func (m model) broken(s *state) string {
	holder := [maxMembers]string{}
	hold := func(device uint8, who string) string {
		if holder[device] != "" {
			return fmt.Sprintf("device %d is used by %s and by %s", device, holder[device], who)
		}
		holder[device] = who
		return ""
	}
	if s.fence.settled > s.fence.epoch {
		return "an epoch is settled that has not begun"
	}
	if s.foreign.phase == running {
		holder[s.foreign.device] = "the foreign pod"
	}
	for g := range m.gangs {
		attempt := uint8(0)
		for i := range m.members {
			p := &s.pods[g][i]
			if p.phase != running {
				continue
			}
			if twice := hold(p.device, memberName(g, i)); twice != "" {
				return twice
			}
			if attempt != 0 && attempt != p.attempt {
				return fmt.Sprintf("members of attempts %d and %d of gang %s run together", attempt, p.attempt, gangName(g))
			}
			attempt = p.attempt
			origin := &s.placements[g][p.attempt]
			switch {
			case p.orphan || !origin.here:
				return fmt.Sprintf("%s runs, and its placement has been given back", memberName(g, i))
			case s.fence.state().Judge(origin.of()) == fencing.Void:
				return fmt.Sprintf("%s runs, and its placement is void", memberName(g, i))
			}
		}
	}
	return ""
}

// goal reports whether everything has come to its end, and nothing is held.
func (m model) goal(s *state) bool {
	if m.foreign && s.foreign.phase != ended {
		return false
	}
	for g := range m.gangs {
		if s.gangs[g].phase != done {
			return false
		}
		for n := range s.placements[g] {
			if s.placements[g][n].here {
				return false
			}
		}
		for i := range m.members {
			if p := s.pods[g][i].phase; p != none && p != ended {
				return false
			}
		}
	}
	return true
}

// scheduler is what one scheduler may do.
func (m model) scheduler(s *state, i int, emit func(state, label)) {
	me := &s.schedulers[i]
	who := uint8(i)
	if me.stage == down {
		m.take(s, i, emit)
		return
	}
	if s.fence.epoch < m.epochs || me.epoch < s.fence.epoch {
		next := *s
		next.schedulers[i] = scheduler{}
		emit(next, label{crashes, who, me.epoch, 0})
	}
	if s.fence.state().Deposes(int64(me.epoch)) {
		next := *s
		next.schedulers[i] = scheduler{}
		emit(next, label{learns, who, me.epoch, 0})
	}
	if m.orderly {
		m.handOver(s, i, emit)
	}
	switch me.stage {
	case listing:
		m.list(s, i, emit)
	case adopting:
		m.adopt(s, i, emit)
	case leading:
		for g := range m.gangs {
			m.sync(s, i, g, emit)
			m.plan(s, i, g, emit)
		}
		if m.foreign {
			m.bindPod(s, i, emit)
		}
	}
}

func (m model) take(s *state, i int, emit func(state, label)) {
	if s.fence.epoch >= m.epochs {
		return
	}
	next := *s
	next.fence = fenceOf(s.fence.state().Next(0))
	if next.fence.epoch < m.epochs {
		emit(next, label{takesLost, uint8(i), next.fence.epoch, 0})
	}
	next.schedulers[i].stage, next.schedulers[i].epoch = listing, next.fence.epoch
	emit(next, label{takes, uint8(i), next.fence.epoch, 0})
	if m.older && next.fence.epoch == 2 {
		next.schedulers[i].old = true
		emit(next, label{takes, uint8(i), next.fence.epoch, 1})
	}
}

func (m model) list(s *state, i int, emit func(state, label)) {
	next := *s
	me := &next.schedulers[i]
	me.stage = adopting
	fence := s.fence.readBy(me.old)
	fence.Epoch = int64(me.epoch)
	for g := range m.gangs {
		for n := range s.placements[g] {
			p := &s.placements[g][n]
			if !p.here || !m.on(lists) {
				continue
			}
			me.highest[g] = max(me.highest[g], uint8(n))
			if fence.Counts(p.of()) {
				me.counted[g] |= 1 << n
				me.device[g] |= p.device << n
				if m.adopts(fence, p.of()) && m.on(stamps) {
					me.todo[g] |= 1 << n
				}
			}
		}
	}
	me.todoPod = m.foreign && m.on(stampsPods)
	if m.foreign && m.continues(fence) {
		me.todoPod, me.podNow, me.podOn = false, true, on(s.foreign)
	}
	emit(next, label{kind: listsAll, a: uint8(i), b: me.epoch})
}

func (m model) adopt(s *state, i int, emit func(state, label)) {
	me := &s.schedulers[i]
	ready := !me.todoPod
	for g := range m.gangs {
		ready = ready && me.todo[g] == 0
		for n := 1; n <= maxAttempts; n++ {
			if me.todo[g]&(1<<n) == 0 {
				continue
			}
			p := &s.placements[g][n]
			next := *s
			switch {
			case !p.here || !m.adopts(takenAt(s, me), p.of()):
				next.schedulers[i].todo[g] &^= 1 << n
				emit(next, label{seesAdopted, uint8(i), uint8(g), uint8(n)})
			case p.stamps&(1<<me.epoch) == 0:
				next.placements[g][n].stamps |= 1 << me.epoch
				emit(next, label{sendsStamp, uint8(i), uint8(g), uint8(n)})
			}
		}
	}
	if me.todoPod {
		next := *s
		if s.foreign.phase == none {
			m.touch(&next)
		}
		next.schedulers[i].todoPod, next.schedulers[i].podNow = false, true
		next.schedulers[i].podOn = on(s.foreign)
		emit(next, label{kind: stampsPod, a: uint8(i), b: me.epoch})
	}
	if !ready {
		return
	}
	next := *s
	settled, ok := m.settled(s, me)
	if !m.on(settlesOnce) && !ok {
		settled, ok = fencing.State{Epoch: int64(me.epoch), Settled: int64(me.epoch)}, true
	}
	if !ok {
		return // it learns that it has been replaced
	}
	next.fence = fenceOf(settled)
	if me.old {
		next.fence.closed = s.fence.closed
	}
	next.schedulers[i].stage = leading
	emit(next, label{kind: settles, a: uint8(i), b: me.epoch})
}

// on is where a pod is bound, from 1; 0 if nowhere.
func on(p foreignPod) uint8 {
	if p.phase == none || p.phase == ended {
		return 0
	}
	return p.device + 1
}

// touch changes the version of the foreign pod.
func (m model) touch(s *state) {
	if m.on(bindsVersion) {
		s.binds = 0
	}
	for i := range s.schedulers {
		me := &s.schedulers[i]
		me.podNow, me.bind.changed = false, me.bind.stage != idle
	}
}

// sync is the cache of one kind and gang catching up.
func (m model) sync(s *state, i, g int, emit func(state, label)) {
	next := *s
	me := &next.schedulers[i]
	me.attempt[g], me.waiting[g] = s.gangs[g].attempt, s.gangs[g].phase == pending
	if next != *s {
		emit(next, label{showsGang, uint8(i), uint8(g), 0})
	}
	next = *s
	me.counted[g], me.device[g] = 0, 0
	for n := range s.placements[g] {
		p := &s.placements[g][n]
		if !p.here {
			continue
		}
		me.highest[g] = max(me.highest[g], uint8(n))
		if takenAt(s, me).Counts(p.of()) {
			me.counted[g] |= 1 << n
			me.device[g] |= p.device << n
		}
	}
	if p := me.plans[g]; p.stage == written {
		me.highest[g] = max(me.highest[g], p.attempt)
		me.plans[g] = plan{}
	}
	if next != *s {
		emit(next, label{showsPlacements, uint8(i), uint8(g), 0})
	}
}

// free reports whether a scheduler takes a device to be free.
func (m model) free(me *scheduler, device uint8) bool {
	if me.podOn == device+1 || me.bind.stage != idle && me.bind.device == device {
		return false
	}
	for g := range m.gangs {
		if p := me.plans[g]; p.stage != idle && m.names(p.device, device) {
			return false
		}
		for n := 1; n <= maxAttempts; n++ {
			if m.counts(me, g, n) && m.names((me.device[g]>>n)&1, device) {
				return false
			}
		}
	}
	return true
}

// names reports whether a plan that begins at one device holds another.
func (m model) names(first, device uint8) bool {
	return device >= first && int(device) < int(first)+m.members
}

// counts reports whether a scheduler counts an attempt: it is cached, and not
// spent as far as is known.
func (m model) counts(me *scheduler, g, n int) bool {
	spent := fencing.Spent(int32(me.attempt[g]), int32(n), !me.waiting[g])
	return me.counted[g]&(1<<n) != 0 && (!spent || !m.on(knowsSpent))
}

// room returns the first device from which a gang has room.
func (m model) room(me *scheduler, members int) (uint8, bool) {
	for first := 0; first+members <= m.devices; first++ {
		all := true
		for i := range members {
			all = all && m.free(me, uint8(first+i))
		}
		if all {
			return uint8(first), true
		}
	}
	return 0, false
}

func (m model) plan(s *state, i, g int, emit func(state, label)) {
	me := &s.schedulers[i]
	p := me.plans[g]
	next := *s
	mine := &next.schedulers[i].plans[g]
	a, b := uint8(i), uint8(g)
	switch p.stage {
	case idle:
		has := false
		for n := 1; n <= maxAttempts; n++ {
			has = has || m.counts(me, g, n)
		}
		if !me.waiting[g] || has || me.highest[g] > me.attempt[g] || me.attempt[g] >= maxAttempts {
			return
		}
		if device, ok := m.room(me, m.members); ok {
			*mine = plan{stage: check, attempt: me.attempt[g] + 1, device: device}
			emit(next, label{plans, a, b, mine.attempt})
		}
	case check:
		if !m.leads(s, me) {
			return // it learns that it has been replaced
		}
		if fencing.Drops(p.unclear) || !m.on(keepsUnclear) {
			dropped := *s
			dropped.schedulers[i].plans[g] = plan{}
			emit(dropped, label{drops, a, b, p.attempt})
		}
		if wanted := s.gangs[g].phase == pending && s.gangs[g].attempt+1 == p.attempt; wanted || p.unclear {
			mine.stage = send
			emit(next, label{checks, a, b, p.attempt})
		}
	case send:
		mine.stage = await
		bit := uint8(1) << ((me.epoch-1)*2 + p.device)
		if m.again {
			next.createAgain[g][p.attempt] |= s.creates[g][p.attempt] & bit
		}
		next.creates[g][p.attempt] |= bit
		emit(next, label{sendsPlacement, a, b, p.attempt})
	case await:
		mine.stage, mine.unclear = check, true
		emit(next, label{losesAnswer, a, b, p.attempt})
	}
}

func (m model) bindPod(s *state, i int, emit func(state, label)) {
	me := &s.schedulers[i]
	next := *s
	mine := &next.schedulers[i]
	a := uint8(i)
	if !me.podNow {
		next.schedulers[i].podNow, next.schedulers[i].podOn = true, on(s.foreign)
		if me.bind.stage == written {
			mine.bind = plan{}
		}
		emit(next, label{kind: showsPod, a: a})
		next, mine = *s, &next.schedulers[i]
	}
	switch me.bind.stage {
	case idle:
		if device, ok := m.room(me, 1); ok && me.podNow && s.foreign.phase == none {
			mine.bind = plan{stage: check, device: device}
			emit(next, label{kind: plansPod, a: a, b: device})
		}
	case check:
		switch {
		case me.bind.changed && m.on(bindsVersion):
			mine.bind = plan{}
			emit(next, label{kind: dropsPod, a: a})
		case m.leads(s, me) || !m.on(bindsChecked):
			mine.bind.stage = send
			emit(next, label{kind: checksPod, a: a})
		}
	case send:
		mine.bind.stage = await
		if !me.bind.changed || !m.on(bindsVersion) {
			next.binds |= 1 << ((me.epoch-1)*2 + me.bind.device)
		}
		emit(next, label{kind: sendsBinding, a: a, b: me.bind.device})
	case await:
		if next.binds&(1<<((me.epoch-1)*2+me.bind.device)) == 0 {
			mine.bind = plan{} // refused: the pod has changed
			emit(next, label{kind: dropsPod, a: a})
		}
	}
}
