package fencing_test

import (
	"github.com/muster-dev/muster/internal/fencing"
)

// arrivals are the requests about a gang that reach the API server.
func (m model) arrivals(s *state, g int, emit func(state, label)) {
	for n := 1; n <= maxAttempts; n++ {
		for bit := range uint8(8) {
			if s.creates[g][n]&(1<<bit) != 0 {
				m.createArrives(s, g, n, bit, emit)
			}
		}
		p := &s.placements[g][n]
		for epoch := uint8(1); epoch <= m.epochs; epoch++ {
			if p.stamps&(1<<epoch) == 0 {
				continue
			}
			next := *s
			q := &next.placements[g][n]
			q.epoch = epoch
			q.stamps &^= 1 << epoch
			if m.on(stampsVersion) {
				q.stamps = 0 // the others were written on an older version
			}
			emit(next, label{stampArrives, uint8(g), uint8(n), epoch})
		}
	}
	for i := range m.members {
		for bit := range uint8(16) {
			if s.makes[g][i]&(1<<bit) == 0 {
				continue
			}
			next := *s
			once := uint16(1) << bit
			next.makes[g][i] = s.makes[g][i]&^once | s.makeAgain[g][i]&once
			next.makeAgain[g][i] &^= once
			if s.pods[g][i].phase == none {
				next.pods[g][i] = pod{phase: made, attempt: bit/4 + 1, device: bit / 2 % 2, orphan: bit%2 == 1}
			}
			emit(next, label{podArrives, uint8(g), uint8(i), bit/4 + 1})
		}
	}
}

func (m model) createArrives(s *state, g, n int, bit uint8, emit func(state, label)) {
	epoch, device := bit/2+1, bit%2
	next := *s
	once := uint8(1) << bit
	next.creates[g][n] = s.creates[g][n]&^once | s.createAgain[g][n]&once
	next.createAgain[g][n] &^= once
	existed := s.placements[g][n].here
	if !existed {
		next.placements[g][n] = placement{here: true, epoch: epoch, device: device}
	}
	emit(next, label{createArrives, uint8(g), uint8(n), epoch})
	for i := range next.schedulers {
		p := &next.schedulers[i].plans[g]
		if next.schedulers[i].epoch != epoch || p.stage != await || p.attempt != uint8(n) {
			continue
		}
		switch {
		case !existed, fencing.Mine(int64(epoch), s.placements[g][n].of()):
			p.stage = written
		default:
			*p = plan{} // another's: it will be undone, and the gang planned again
		}
		emit(next, label{createAnswered, uint8(g), uint8(n), epoch})
	}
}

// controller is what the controller of a gang may do.
func (m model) controller(s *state, g int, emit func(state, label)) {
	c := &s.controllers[g]
	b := uint8(g)
	if c.stage != 0 {
		next := *s
		next.controllers[g] = controller{}
		emit(next, label{forgets, b, 0, 0})
	}
	switch c.stage {
	case 0:
		for n := 1; n <= maxAttempts; n++ {
			if p := &s.placements[g][n]; p.here && s.gangs[g].phase != draining {
				next := *s
				next.controllers[g] = controller{stage: saw, attempt: uint8(n), epoch: int8(p.of())}
				if !m.on(judges) {
					next.controllers[g].stage = allowed
				}
				emit(next, label{sees, b, uint8(n), uint8(p.of())})
			}
		}
		m.ends(s, g, emit)
	case saw:
		next := *s
		next.controllers[g].stage, next.controllers[g].fence = judging, s.fence
		emit(next, label{readsFence, b, s.fence.epoch, s.fence.settled<<4 | s.fence.closed})
		if m.older && s.fence.closed != 0 {
			next.controllers[g].fence.closed = 0
			emit(next, label{readsFence, b, s.fence.epoch, s.fence.settled << 4})
		}
	case judging:
		m.judge(s, g, emit)
	case allowed:
		m.start(s, g, emit)
	case undoing:
		m.undo(s, g, emit)
	case listed:
		m.letGo(s, g, emit)
	}
}

// judge is the verdict on the Placement that was seen, by the fence that was
// read after it, and if that does not make it valid by the Placement as it is.
func (m model) judge(s *state, g int, emit func(state, label)) {
	c := s.controllers[g]
	next := *s
	verdict := c.fence.state().Judge(int64(c.epoch))
	p := &s.placements[g][c.attempt]
	if verdict != fencing.Valid && m.on(judgesLive) {
		verdict = fencing.Undecided
		if p.here && !c.orphan {
			verdict = c.fence.state().Judge(p.of())
		}
	}
	next.controllers[g].fence, next.controllers[g].epoch = fence{}, 0
	switch {
	case verdict == fencing.Valid:
		next.controllers[g].stage = allowed
	case verdict == fencing.Void && m.on(undoes):
		next.controllers[g].stage = undoing
	default:
		next.controllers[g] = controller{}
	}
	emit(next, label{findsVerdict, uint8(g), c.attempt, uint8(verdict)})
}

// start makes the members of a Placement that is valid, and accepts it.
func (m model) start(s *state, g int, emit func(state, label)) {
	c, now := s.controllers[g], s.gangs[g]
	b := uint8(g)
	next := *s
	switch {
	case now.phase == draining:
	case now.phase == done, fencing.Spent(int32(now.attempt), int32(c.attempt), now.holds()) && m.on(knowsSpent):
		next.controllers[g].stage = undoing
		emit(next, label{findsSpent, b, c.attempt, 0})
	case fencing.Starts(int32(now.attempt), int32(c.attempt), now.holds()):
		if now.phase == pending {
			next.gangs[g].phase, next.gangs[g].attempt = placed, c.attempt
			emit(next, label{accepts, b, c.attempt, 0})
		}
		for i := range m.members {
			if s.pods[g][i].phase != none {
				continue
			}
			next := *s
			device := s.placements[g][c.attempt].device + uint8(i)
			bit := (c.attempt-1)*4 + device*2
			if c.orphan {
				bit++
			}
			if m.again {
				next.makeAgain[g][i] |= s.makes[g][i] & (1 << bit)
			}
			next.makes[g][i] |= 1 << bit
			if next != *s {
				emit(next, label{sendsPod, b, uint8(i), c.attempt})
			}
		}
	}
}

// undo gives back a Placement of which nothing was ever made.
func (m model) undo(s *state, g int, emit func(state, label)) {
	c, now := s.controllers[g], s.gangs[g]
	p := &s.placements[g][c.attempt]
	next := *s
	switch {
	case c.orphan || !p.here:
		next.controllers[g] = controller{}
		emit(next, label{forgets, uint8(g), 0, 0})
	case fencing.Burns(int32(now.attempt), int32(c.attempt), now.holds()) && m.on(burns):
		next.gangs[g].attempt = c.attempt
		emit(next, label{passesOver, uint8(g), c.attempt, 0})
	case !p.marked:
		next.placements[g][c.attempt].marked = true
		emit(next, label{marks, uint8(g), c.attempt, 0})
	default:
		m.gone(&next, g, int(c.attempt))
		next.controllers[g] = controller{}
		emit(next, label{frees, uint8(g), c.attempt, 0})
	}
}

// ends is how an attempt ends and is given back.
func (m model) ends(s *state, g int, emit func(state, label)) {
	now := s.gangs[g]
	b := uint8(g)
	run, refused := 0, false
	for i := range m.members {
		p := &s.pods[g][i]
		if p.phase == running && p.attempt == now.attempt {
			run++
		}
		refused = refused || p.phase == ended && p.attempt == now.attempt
		foreign := p.attempt != now.attempt || p.phase == ended
		goes := now.phase == draining || now.phase == placed && foreign ||
			now.phase == pending && p.attempt <= now.attempt || now.phase == done && p.phase != ended
		if goes && p.phase != none && !p.deleting {
			next := *s
			next.pods[g][i].deleting = true
			emit(next, label{deletes, b, uint8(i), p.attempt})
		}
	}
	if now.phase == placed {
		next := *s
		next.gangs[g].phase = draining
		if refused || run > 0 && now.fails < m.fails {
			next.gangs[g].fails++
			emit(next, label{fails, b, now.attempt, 0})
			next.gangs[g].fails--
		}
		if run == m.members {
			next.gangs[g].ending = true
			emit(next, label{finishes, b, now.attempt, 0})
		}
	}
	if now.phase == draining {
		m.release(s, g, emit)
	}
}

// release marks what the gang holds, and looks for members after that.
func (m model) release(s *state, g int, emit func(state, label)) {
	members, marked := 0, true
	for i := range m.members {
		if s.pods[g][i].phase != none {
			members++
		}
	}
	for n := 1; n <= maxAttempts; n++ {
		if p := &s.placements[g][n]; p.here && !p.marked {
			marked = false
		}
	}
	if !m.on(marksFirst) {
		marked = true
	}
	switch fencing.Release(marked, members) {
	case fencing.Mark:
		for n := 1; n <= maxAttempts; n++ {
			if p := &s.placements[g][n]; p.here && !p.marked {
				next := *s
				next.placements[g][n].marked = true
				emit(next, label{marks, uint8(g), uint8(n), 0})
			}
		}
	case fencing.Free:
		next := *s
		next.controllers[g].stage = listed
		emit(next, label{findsNone, uint8(g), 0, 0})
	}
}

// letGo lets go what was marked, and says so.
func (m model) letGo(s *state, g int, emit func(state, label)) {
	left := false
	for n := 1; n <= maxAttempts; n++ {
		if p := &s.placements[g][n]; p.here && (p.marked || !m.on(marksFirst)) {
			left = true
			next := *s
			m.gone(&next, g, n)
			emit(next, label{frees, uint8(g), uint8(n), 0})
		}
	}
	if left {
		return
	}
	next := *s
	next.controllers[g] = controller{}
	next.gangs[g].phase = pending
	if s.gangs[g].ending {
		next.gangs[g] = gang{phase: done, attempt: s.gangs[g].attempt}
	}
	emit(next, label{released, uint8(g), 0, 0})
}

// gone removes a Placement: whatever was made from it is an orphan.
func (m model) gone(s *state, g, n int) {
	s.placements[g][n] = placement{}
	if c := &s.controllers[g]; int(c.attempt) == n {
		c.orphan = true
	}
	for i := range m.members {
		if p := &s.pods[g][i]; p.phase != none && int(p.attempt) == n {
			p.orphan = true
		}
		for device := range 2 {
			orphaned(&s.makes[g][i], (n-1)*4+device*2)
			orphaned(&s.makeAgain[g][i], (n-1)*4+device*2)
		}
	}
}

// orphaned makes one pod under way an orphan.
func orphaned(under *uint16, bit int) {
	if *under&(1<<bit) != 0 {
		*under = *under&^(1<<bit) | 1<<(bit+1)
	}
}

// node is what the node does with the members of a gang.
func (m model) node(s *state, g int, emit func(state, label)) {
	for i := range m.members {
		p := &s.pods[g][i]
		next := *s
		q := &next.pods[g][i]
		b, c := uint8(g), uint8(i)
		switch {
		case p.phase == none:
		case p.deleting:
			*q = pod{}
			emit(next, label{removes, b, c, p.attempt})
		case p.phase == made:
			origin := &s.placements[g][p.attempt]
			exists := ""
			if origin.here {
				exists = "its own"
			}
			if origin.here && p.orphan {
				exists = "another of that name"
			}
			if q.phase = ended; fencing.MayRun("its own", exists, origin.marked) || !m.on(nodeLooks) {
				q.phase = passed
			}
			emit(next, label{admits, b, c, q.phase})
		case p.phase == passed:
			q.phase = running
			emit(next, label{starts, b, c, p.attempt})
		}
	}
}

// foreignPod is what becomes of the foreign pod.
func (m model) foreignPod(s *state, emit func(state, label)) {
	for bit := range uint8(8) {
		if s.binds&(1<<bit) == 0 {
			continue
		}
		next := *s
		next.binds &^= 1 << bit
		epoch, device := bit/2+1, bit%2
		if s.foreign.phase == none {
			next.foreign = foreignPod{made, device}
			m.touch(&next)
			for i := range next.schedulers {
				if me := &next.schedulers[i]; me.epoch == epoch && me.bind.stage == await {
					me.bind.stage = written
				}
			}
		}
		emit(next, label{bindingArrives, device, epoch, 0})
	}
	next := *s
	switch s.foreign.phase {
	case made:
		next.foreign.phase = running
		emit(next, label{kind: foreignStarts})
	case running:
		next.foreign = foreignPod{phase: ended}
		m.touch(&next)
		emit(next, label{kind: foreignEnds})
	}
}
