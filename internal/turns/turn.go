package turns

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// grace is for how long who loses its turn is still waited for: what is being sent
// comes in that time, and of a body whose wait was cut short nothing can be read any
// more.
const grace = 500 * time.Millisecond

// Turn is a request's place in a lane, while it is served.
type Turn struct {
	lane *Lane
	// who asks, and for whom.
	who, party string
	began      time.Time
	// leaving says that it has to make room; the lane's.
	leaving bool

	mu sync.Mutex
	// lost is what it is told once it has to make room, and over is true once it
	// has been served.
	lost *Busy
	over bool
	// interrupt ends the wait for the other side that is under way, soon.
	interrupt func()
	pace      pace
}

// Out ends a turn: the next one's begins. It may be called again.
func (t *Turn) Out() {
	t.mu.Lock()
	over := t.over
	t.over = true
	t.mu.Unlock()
	if over {
		return
	}
	l := t.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.turns {
		if l.turns[i] == t {
			l.turns = append(l.turns[:i], l.turns[i+1:]...)
			break
		}
	}
	l.uncount(t.who)
	l.give(l.now())
}

// lose takes a turn back: whatever it waits for from the other side ends.
func (t *Turn) lose(why *Busy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.lost != nil {
		return
	}
	if t.lost = why; t.interrupt != nil {
		t.interrupt()
	}
}

// Lost is what who lost its turn is told; nil: it has not.
func (t *Turn) Lost() *Busy {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// slow reports whether the other side is too slow, and how many bytes a second
// it moves.
func (t *Turn) slow(now time.Time) (int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pace.judge(now, t.lane.Rules.Window, t.lane.Rules.Slowest)
}

// Move waits for the other side: for so long without anything as the rules say, and not for who
// has lost its turn. Set sets the deadline of what do does; it may answer
// [http.ErrNotSupported].
func (t *Turn) Move(set func(time.Time) error, do func() (int, error)) (int, error) {
	if err := t.wait(set); err != nil {
		return 0, err
	}
	n, err := do()
	return n, t.moved(set, n, err)
}

func (t *Turn) wait(set func(time.Time) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		return t.lost
	}
	if err := deadline(set, time.Now().Add(t.lane.Rules.Stall)); err != nil {
		return err
	}
	t.pace.since = t.lane.now()
	t.interrupt = func() { _ = deadline(set, time.Now().Add(grace)) } // else it ends by the deadline that is set
	return nil
}

// moved counts what was moved. How long the store takes for what comes next is
// not the other side's doing: until then there is no deadline. Over HTTP/2, by
// which the API server comes, one that passes between two reads would end the
// body for good.
func (t *Turn) moved(set func(time.Time) error, n int, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupt = nil
	t.pace.rest(t.lane.now(), n)
	if t.lost != nil {
		return t.lost
	}
	if cleared := deadline(set, time.Time{}); cleared != nil && err == nil {
		return cleared
	}
	return err
}

// deadline sets one; what has none is fine.
func deadline(set func(time.Time) error, at time.Time) error {
	if err := set(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// pace is how much was moved in how much time spent waiting for it.
type pace struct {
	moved  int64
	waited time.Duration
	// since is when the wait that is under way began; zero: there is none.
	since time.Time
	// The sums when the window began, and what came of the one before.
	movedBefore  int64
	waitedBefore time.Duration
	rate         int64
	slow         bool
}

// rest ends a wait.
func (p *pace) rest(now time.Time, n int) {
	p.waited += now.Sub(p.since)
	p.moved += int64(n)
	p.since = time.Time{}
}

// judge says how the last whole window went.
func (p *pace) judge(now time.Time, window time.Duration, slowest int64) (int64, bool) {
	waited := p.waited
	if !p.since.IsZero() {
		waited += now.Sub(p.since)
	}
	if spent := waited - p.waitedBefore; spent >= window {
		p.rate = int64(float64(p.moved-p.movedBefore) / spent.Seconds())
		p.slow = p.rate < slowest
		p.movedBefore, p.waitedBefore = p.moved, waited
	}
	return p.rate, p.slow
}
