package supervise

import (
	"maps"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// termination is a request to end, as it reaches the tree. Kubelets send SIGTERM
// to the main process alone, and a shell that dies of it leaves a trainer behind
// that was never asked. Here every process gets SIGTERM, and gets it once: many
// trainers take a second one as an order to drop their work.
//
//   - A process that was there at the request gets it, whatever its parent, its
//     process group or session. Exceptions are helpers.
//   - A process that was started later is the answer of another process, such as python save.py in
//     trap 'python save.py' TERM. It gets no SIGTERM. But the child of a process that ignores
//     SIGTERM gets it: its parent goes on as if nothing had happened.
//   - A process that ignores SIGTERM gets it once it does not any more.
type termination struct {
	self  int
	own   int                    // our own process group
	at    lineage.Moment         // right before the last signal of the first look
	begun bool                   // there was a look
	known map[member]*standing   // the decisions
	asked map[int]lineage.Moment // process groups that got SIGTERM, and when
}

// member is one process of the tree, also after its number was used again.
type member struct {
	pid   int
	start uint64
}

// found is a process of the tree at one look.
type found struct {
	member
	lineage.Stat
	parent *standing // nil: us
}

// standing is the state of a process in a termination.
type standing struct {
	state  state
	helper helper         // of a deferred process
	due    bool           // it is asked in this look
	again  bool           // it has ignored the signal before
	at     lineage.Moment // when it was asked
}

type state int

const (
	// asked: it got SIGTERM.
	asked state = iota
	// ignoring: it ignored SIGTERM when that was sent.
	ignoring
	// exempt: it answers for another process.
	exempt
	// deferred: its parent decides when it ends, see helper.
	deferred
)

func newTermination() *termination {
	return &termination{self: os.Getpid(), own: unix.Getpgrp(), known: map[member]*standing{}, asked: map[int]lineage.Moment{}}
}

// signalAll sends SIGTERM to all processes that are there. Between two looks at
// the tree a process may start another, so it looks until there is nothing new.
func (t *termination) signalAll() {
	const mostLooks = 20 // for a tree that forks faster than it is read
	for range mostLooks {
		if !t.look() {
			return
		}
	}
}

// watch looks for processes that are to be asked later, until done is closed.
func (t *termination) watch(done <-chan struct{}) {
	const first, last = 5 * time.Millisecond, 250 * time.Millisecond
	for pause := first; ; pause = min(2*pause, last) {
		select {
		case <-done:
			return
		case <-time.After(pause):
			t.look()
		}
	}
}

// look reads the tree once and signals the processes that are due. It reports
// whether it asked a process.
//
//  1. Decide about each process, parents first.
//  2. Ask those of one process group together, where none of it is left out:
//     such a signal reaches both sides of a fork that is under way (Linux 4.19
//     and later).
//  3. Ask the others one by one.
func (t *termination) look() bool {
	var ask []found
	apart := map[int]bool{} // groups with a process that is left out
	here := map[int]*standing{}
	if !t.begun {
		t.at = lineage.Now()
	}
	for _, pid := range lineage.Descendants(t.self) {
		s, err := lineage.Read(pid)
		if err != nil || s.State == 'Z' || s.Group == t.own {
			continue // it has ended, or is about to be started by us
		}
		f := found{member{pid, s.StartTicks}, s, here[s.Parent]}
		h, now := t.decide(f)
		h.due = now
		t.known[f.member], here[pid] = h, h
		if now {
			ask = append(ask, f)
		} else {
			apart[s.Group] = true
		}
	}
	for _, f := range ask {
		t.ask(f, !apart[f.Group])
	}
	t.begun = true
	return len(ask) > 0
}

// decide returns the standing of a process, and whether to ask it now.
func (t *termination) decide(f found) (h *standing, now bool) {
	h = t.known[f.member]
	switch {
	case h == nil && t.late(f):
		return t.decideLate(f)
	case h == nil:
		if f.parent != nil {
			if kind := helperOf(f.Parent, f.pid); kind != noHelper {
				return &standing{state: deferred, helper: kind}, false
			}
		}
		return &standing{state: asked}, true
	case h.state == ignoring && !lineage.ReadHandling(f.pid).Ignores(unix.SIGTERM):
		h.state, h.again = asked, true
		return h, true
	case h.state == deferred && f.parent == nil && h.helper == loader:
		h.state = asked // its data is of no use any more
		return h, true
	case h.state == deferred && f.parent == nil:
		h.state = exempt // its launcher has asked it, and ended
	}
	return h, false
}

// late reports whether a process was started after the request had reached its
// parent.
func (t *termination) late(f found) bool {
	switch {
	case !t.begun:
		return false
	case f.parent == nil || f.parent.state == deferred: // an orphan, or a command of ours
		return !t.at.Before(f.pid, f.Stat)
	case f.parent.state == exempt:
		return true
	case f.parent.due:
		return false
	}
	return !f.parent.at.Before(f.pid, f.Stat)
}

// decideLate decides about a process that was started after the request.
func (t *termination) decideLate(f found) (h *standing, now bool) {
	switch {
	case f.parent == nil || f.parent.state == exempt || !lineage.ReadHandling(f.Parent).Ignores(unix.SIGTERM):
		return &standing{state: exempt}, false
	case lineage.ReadHandling(f.pid).Ignores(unix.SIGTERM):
		return &standing{state: ignoring, at: lineage.Now()}, false // inherited; a program that handles it sets its handler soon
	}
	return &standing{state: asked}, true
}

// ask sends SIGTERM to a process, or to its group.
func (t *termination) ask(f found, together bool) {
	h := t.known[f.member]
	h.due = false
	if lineage.ReadHandling(f.pid).Ignores(unix.SIGTERM) {
		h.state = ignoring
	}
	at, done := t.asked[f.Group]
	reached := done && !h.again && at.Before(f.pid, f.Stat) && !left(f)
	if h.at = at; !reached {
		h.at = lineage.Now()
	}
	if !t.begun && !reached {
		t.at = h.at
	}
	switch {
	case reached: // by the signal to its group
	case together && !done && f.Group > 1: // 0 and 1 mean other things
		t.asked[f.Group] = h.at
		_ = unix.Kill(-f.Group, unix.SIGTERM)
	default:
		_ = unix.Kill(f.pid, unix.SIGTERM)
	}
	if f.State == 'T' {
		_ = unix.Kill(f.pid, unix.SIGCONT) // it is stopped, and could not answer
	}
}

// left reports whether a process has left the group in which it was seen, for a session of its own:
// it may have missed the signal to the group, and a second one finds it before it has a handler. A
// process that has ended has not left: it needs no further signal, which would move t.at past answers.
func left(f found) bool {
	s, err := lineage.Read(f.pid)
	return err == nil && s.StartTicks == f.StartTicks && s.Group != f.Group
}

// linger waits, after the main process of a container that was asked to end has
// ended, until the others have ended or the time for that is over.
func (s *supervisor) linger() {
	const look = 50 * time.Millisecond
	for s.lingers() {
		select {
		case <-s.reaped:
		case <-time.After(look):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
}

func (s *supervisor) lingers() bool {
	s.reap()
	s.mu.Lock()
	s.leaving = true
	asked, by, childless := !s.stopBy.IsZero(), s.stopBy, s.childless
	s.mu.Unlock()
	if !asked || childless || !s.working() {
		return false
	}
	if time.Now().Before(by) {
		return true
	}
	s.noteCut()
	return false
}

// timeUp ends what still runs when the time to end is over.
func (s *supervisor) timeUp() {
	s.reap()
	s.mu.Lock()
	childless := s.childless
	s.mu.Unlock()
	if !childless && s.working() {
		s.noteCut()
	}
	s.killAll()
}

func (s *supervisor) noteCut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutShort = true
}

// working reports whether a process of the container still runs, while we have children. Commands
// that were started beside the main process do not count: a shell that a user left open ignores
// SIGTERM.
func (s *supervisor) working() bool {
	s.mu.Lock()
	beside := map[int]bool{}
	for pid := range s.children {
		if pid != s.main {
			beside[pid] = true
		}
	}
	s.mu.Unlock()
	// A look may miss a process whose parent ends meanwhile. It is our own
	// child then, and the next look finds it.
	return len(beside) == 0 || worksBeside(beside) || worksBeside(beside)
}

// worksBeside reports whether a process runs that no command of a list started.
func worksBeside(commands map[int]bool) bool {
	beside := maps.Clone(commands)
	for _, pid := range lineage.Descendants(os.Getpid()) { // parents first
		stat, err := lineage.Read(pid)
		if err != nil || stat.State == 'Z' {
			continue
		}
		if !beside[pid] && !beside[stat.Parent] && !beside[stat.Session] {
			return true
		}
		beside[pid] = true
	}
	return false
}
