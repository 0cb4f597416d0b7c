package fencing_test

import (
	"github.com/muster-dev/muster/internal/fencing"
)

// The model's part about schedulers that hand over in order: one that plans
// nothing more and has every answer says so in the fence, and ends. Its word
// arrives at any time, or never; who takes over meanwhile takes it for one that
// crashed.

// handOver is how a scheduler ends in order.
func (m model) handOver(s *state, i int, emit func(state, label)) {
	me := &s.schedulers[i]
	if me.old || s.fence.epoch >= m.epochs || s.words&(1<<me.epoch) != 0 {
		return
	}
	if me.stage != leading && m.on(wordsByLeader) {
		return
	}
	for g := range m.gangs {
		if !answered(me.plans[g]) && m.on(wordsAnswered) {
			return
		}
	}
	if !answered(me.bind) && m.on(wordsOfPods) {
		return
	}
	next := *s
	next.words |= 1 << me.epoch
	if m.on(wordsLast) {
		next.schedulers[i] = scheduler{}
	}
	emit(next, label{saysWord, uint8(i), me.epoch, 0})
}

// answered reports whether a scheduler knows what came of a plan.
func answered(p plan) bool { return p.stage == idle || p.stage == written }

// wordArrives is what becomes of the words under way: nothing, once somebody has
// taken over.
func (m model) wordArrives(s *state, emit func(state, label)) {
	for epoch := uint8(1); epoch <= m.epochs; epoch++ {
		if s.words&(1<<epoch) == 0 {
			continue
		}
		was := s.fence.state()
		if !m.on(wordsSwapped) {
			was.Epoch = int64(epoch) // it overwrites what was written meanwhile
		}
		closed, ok := was.Close(int64(epoch))
		if !m.on(wordsByLeader) && was.Epoch == int64(epoch) {
			closed, ok = was, true
			closed.Closed = int64(epoch)
		}
		next := *s
		next.words &^= 1 << epoch
		if ok {
			next.fence = fenceOf(closed)
		}
		emit(next, label{kind: wordLands, a: epoch})
	}
}

// readBy is the fence as one reads it that may be of the version before.
func (f fence) readBy(old bool) fencing.State {
	if old {
		f.closed = 0
	}
	return f.state()
}

// leads reports whether the fence lets a scheduler write.
func (m model) leads(s *state, me *scheduler) bool {
	f := s.fence.readBy(me.old)
	switch {
	case !m.on(wordsLast) && f.Closed == f.Epoch:
		return f.Epoch == int64(me.epoch)
	case !m.on(wordsNamed) && f.Epoch == int64(me.epoch) && m.continues(f):
		return true
	}
	return f.Leads(int64(me.epoch))
}

// settled is the fence once a scheduler has adopted everything.
func (m model) settled(s *state, me *scheduler) (fencing.State, bool) {
	f := s.fence.readBy(me.old)
	next, ok := f.Settle(int64(me.epoch))
	switch {
	case ok && m.continues(f) && !m.on(wordsNamed):
		return f, ok
	case ok && !m.on(chainsKeep):
		return fencing.State{Epoch: int64(me.epoch), Settled: int64(me.epoch)}, ok
	}
	return next, ok
}

// continues reports whether who took a fence carries a chain on.
func (m model) continues(f fencing.State) bool {
	if !m.on(wordsNamed) {
		return f.Settled > 0 && f.Closed >= f.Settled
	}
	return f.Continues()
}

// adopts reports whether who took a fence stamps what carries an epoch.
func (m model) adopts(f fencing.State, epoch int64) bool {
	switch {
	case m.continues(f) && !f.Continues():
		return false
	case !m.on(stampsChains):
		return f.Judge(epoch) == fencing.Undecided
	}
	return f.Adopts(epoch)
}

// takenAt is the fence as a scheduler took it. Once another has, it is as it was
// at most: the one that stamps still knows of less that is void.
func takenAt(s *state, me *scheduler) fencing.State {
	if s.fence.epoch != me.epoch {
		return fencing.State{Epoch: int64(me.epoch)}
	}
	return s.fence.readBy(me.old)
}
