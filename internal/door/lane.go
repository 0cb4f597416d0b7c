package door

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/environment/source"
)

// rules are by which turns in a lane are given and taken back.
type rules struct {
	// patience is for how long a request waits for its turn, and look how often
	// it is looked meanwhile whether somebody has to make room.
	patience, look time.Duration
	// courtesy is for how long those who keep to the pace are left alone while
	// somebody waits.
	courtesy time.Duration
	// window is the time over which the pace is judged: that spent waiting for the
	// other side. Slowest is the least that is wanted, in bytes a second.
	window  time.Duration
	slowest int64
	// longest is the longest turn while somebody waits who has none.
	longest time.Duration
}

// standing are the rules of all lanes.
var standing = rules{
	patience: 10 * time.Second, look: time.Second, courtesy: 2 * time.Second,
	window: 8 * time.Second, slowest: 64 << 10, longest: 10 * time.Minute,
}

// comeAgain is after when those are to ask again who had to wait for too long,
// or to make room.
const comeAgain = 2 * time.Second

// lane bounds how many requests are served at once, altogether and of each
// caller. While others wait, who is slow loses its turn, and where a turn can be
// taken up again also who has more of them than others, or one for very long.
type lane struct {
	wide, each int
	// resumes says that little is lost with a turn.
	resumes bool
	rules   rules
	now     func() time.Time

	mu sync.Mutex
	// turns are those that are taken, and line who waits for one, both in the
	// order in which they came.
	turns []*turn
	line  []*waiter
	// of counts the requests of each caller, those that wait included.
	of map[string]int
}

// waiter is a request that waits for its turn; given is closed once it has it.
type waiter struct {
	turn  *turn
	since time.Time
	given chan struct{}
}

func newLane(wide, each int, now func() time.Time) *lane {
	return &lane{wide: wide, each: each, rules: standing, now: now, of: map[string]int{}}
}

// lanes are those of the door.
type lanes struct {
	// up is for code that is sent; each holds up to 16 MiB of it in memory.
	up *lane
	// down is for code that is read; each may hold as much.
	down *lane
	// answer is for looks at the whole cluster.
	answer *lane
	// report is for what agents say of pods, some writes each.
	report *lane
	// read is for parts of data, which are short and many, and store for packs that
	// are sent; neither holds more than some kilobytes in memory.
	read, store *lane
	// shift is for workers of pipelines, who wait long for an answer, and for the
	// files of what they compute.
	shift *lane
	// ahead is for agents that wait for orders, one question each.
	ahead *lane
}

func newLanes(now func() time.Time) lanes {
	out := lanes{up: newLane(6, 2, now), down: newLane(24, 8, now), answer: newLane(4, 2, now), report: newLane(8, 1, now)}
	out.read, out.store, out.shift = newLane(96, 64, now), newLane(24, 16, now), newLane(2048, 512, now)
	out.ahead = newLane(16384, 2, now)
	// What came whole is kept, and of what is read the rest is asked for.
	out.up.resumes, out.store.resumes, out.read.resumes = true, true, true
	return out
}

// busy is what those are told who have to come again.
func busy(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, Text: fmt.Sprintf(format, args...), RetryAfter: comeAgain}
}

// in waits for a turn of a caller, which acts for a party: lanes are shared out
// among parties. Call [turn.out] afterwards.
func (l *lane) in(ctx context.Context, who, party string) (*turn, error) {
	w, err := l.join(who, party)
	if err != nil {
		return nil, err
	}
	patience, look := time.NewTimer(l.rules.patience), time.NewTicker(l.rules.look)
	defer patience.Stop()
	defer look.Stop()
	for err == nil {
		select {
		case <-w.given:
			return w.turn, nil
		case <-look.C:
			l.review()
		case <-ctx.Done():
			err = ctx.Err()
		case <-patience.C:
			err = busy("the manager is busy with others' requests: try again in a moment")
		}
	}
	if l.leave(w) {
		return nil, err
	}
	return w.turn, nil // it came at that moment
}

// join puts a request into the line.
func (l *lane) join(who, party string) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[who] >= l.each {
		return nil, busy("the manager is still at other requests of yours: try again in a moment")
	}
	l.of[who]++
	now := l.now()
	w := &waiter{turn: &turn{lane: l, who: who, party: party}, since: now, given: make(chan struct{})}
	l.line = append(l.line, w)
	l.give(now)
	l.makeRoom(now)
	return w, nil
}

// leave takes a request out of the line; false if it has its turn already.
func (l *lane) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.line, w)
	if at < 0 {
		return false
	}
	l.line = slices.Delete(l.line, at, at+1)
	l.uncount(w.turn.who)
	return true
}

// uncount counts one request of a caller less.
func (l *lane) uncount(who string) {
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
}

// held counts the turns of each party that it is to keep.
func (l *lane) held() map[string]int {
	out := map[string]int{}
	for _, t := range l.turns {
		if !t.leaving {
			out[t.party]++
		}
	}
	return out
}

// give gives free turns to those who wait: first to who has the fewest.
func (l *lane) give(now time.Time) {
	for len(l.turns) < l.wide && len(l.line) > 0 {
		held, first := l.held(), 0
		for i, w := range l.line {
			if held[w.turn.party] < held[l.line[first].turn.party] {
				first = i
			}
		}
		w := l.line[first]
		l.line = slices.Delete(l.line, first, first+1)
		w.turn.began = now
		l.turns = append(l.turns, w.turn)
		close(w.given)
	}
}

// review looks whether somebody has to make room.
func (l *lane) review() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.makeRoom(l.now())
}

// makeRoom ends a turn for each who waits and for whom somebody has to go.
func (l *lane) makeRoom(now time.Time) {
	going := 0
	for _, t := range l.turns {
		if t.leaving {
			going++
		}
	}
	for _, w := range l.line {
		if going > 0 {
			going-- // somebody goes already
			continue
		}
		if t, why := l.loser(w, now); t != nil {
			t.leaving = true
			t.lose(why)
		}
	}
}

// loser is whose turn ends for who waits, and what it is told; nil: nobody's.
func (l *lane) loser(w *waiter, now time.Time) (*turn, *Refusal) {
	var others []*turn
	for _, t := range l.turns {
		if !t.leaving && t.party != w.turn.party {
			others = append(others, t)
		}
	}
	for _, t := range others {
		if rate, slow := t.slow(now); slow {
			return t, busy("others wait, and only %s a second arrived where %s are wanted: what arrived whole is kept, so come again in a moment for the rest",
				source.FormatBytes(rate), source.FormatBytes(l.rules.slowest))
		}
	}
	if !l.resumes || now.Sub(w.since) < l.rules.courtesy {
		return nil, nil
	}
	held := l.held()
	for _, t := range slices.Backward(others) { // the youngest has the least to lose
		if most := held[t.party]; most > held[w.turn.party]+1 && most == largest(held) {
			return t, busy("others wait, and %d requests of namespace %s are served at once: what arrived whole is kept, so come again in a moment for the rest", most, t.party)
		}
	}
	if len(others) > 0 && held[w.turn.party] == 0 && now.Sub(others[0].began) > l.rules.longest {
		return others[0], busy("others wait, and this has taken more than %s: what arrived whole is kept, so come again in a moment for the rest", l.rules.longest)
	}
	return nil, nil
}

func largest(counts map[string]int) int {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}
