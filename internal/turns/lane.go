package turns

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/environment/source"
)

// Rules are by which turns in a lane are given and taken back.
type Rules struct {
	// Patience is for how long a request waits for its turn, and Look how often
	// it is looked meanwhile whether somebody has to make room.
	Patience, Look time.Duration
	// Courtesy is for how long those who keep to the pace are left alone while
	// somebody waits.
	Courtesy time.Duration
	// Window is the time over which the pace is judged: that spent waiting for the
	// other side. Slowest is the least that is wanted, in bytes a second.
	Window  time.Duration
	Slowest int64
	// Longest is the longest turn while somebody waits who has none.
	Longest time.Duration
	// Stall is for how long nothing may arrive, or be taken, whoever waits.
	Stall time.Duration
}

// Standing are the rules of lanes that have no others.
func Standing() Rules {
	return Rules{
		Patience: 10 * time.Second, Look: time.Second, Courtesy: 2 * time.Second,
		Window: 8 * time.Second, Slowest: 64 << 10, Longest: 10 * time.Minute, Stall: time.Minute,
	}
}

// comeAgain is after when those are to ask again who had to wait for too long,
// or to make room.
const comeAgain = 2 * time.Second

// Busy is the error of a request that has to come again.
type Busy struct {
	// Text is a sentence for a person.
	Text string
	// After is after when asking again makes sense.
	After time.Duration
}

// Error implements error.
func (b *Busy) Error() string { return b.Text }

// Lane bounds how many requests are served at once, altogether and of each
// caller. While others wait, who is slow loses its turn, and where a turn can be
// taken up again also who has more of them than others, or one for very long. The
// exported fields are not to be changed once it is used.
type Lane struct {
	// Wide is how many requests are served at once, and Each how many of one caller
	// are served or wait.
	Wide, Each int
	// Resumes says that little is lost with a turn.
	Resumes bool
	// Rules are by which turns are given and taken back.
	Rules Rules

	now func() time.Time

	mu sync.Mutex
	// turns are those that are taken, and line who waits for one, both in the
	// order in which they came.
	turns []*Turn
	line  []*waiter
	// of counts the requests of each caller, those that wait included.
	of map[string]int
	// reviewed is when it was looked last whether somebody has to make room.
	reviewed time.Time
}

// waiter is a request that waits for its turn; given is closed once it has it.
type waiter struct {
	turn  *Turn
	since time.Time
	given chan struct{}
}

// New makes a lane that is so wide, for so many requests of each caller, with the
// standing rules. Now is its clock.
func New(wide, each int, now func() time.Time) *Lane {
	return &Lane{Wide: wide, Each: each, Rules: Standing(), now: now, of: map[string]int{}}
}

// Taken is how many requests are being served.
func (l *Lane) Taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.turns)
}

// busy is what those are told who have to come again.
func busy(format string, args ...any) *Busy {
	return &Busy{Text: fmt.Sprintf(format, args...), After: comeAgain}
}

// In waits for a turn of a caller, which acts for a party: lanes are shared out
// among parties. Call [Turn.Out] afterwards. The error is a [*Busy] where it has to come
// again.
func (l *Lane) In(ctx context.Context, who, party string) (*Turn, error) {
	w, err := l.join(who, party)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.given:
		return w.turn, nil
	default:
	}
	patience, look := time.NewTimer(l.Rules.Patience), time.NewTicker(l.Rules.Look)
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
			err = busy("Muster is busy with others' requests: try again in a moment")
		}
	}
	if l.leave(w) {
		return nil, err
	}
	return w.turn, nil // it came at that moment
}

// join puts a request into the line.
func (l *Lane) join(who, party string) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[who] >= l.Each {
		return nil, busy("Muster is still at other requests of yours: try again in a moment")
	}
	l.of[who]++
	now := l.now()
	w := &waiter{turn: &Turn{lane: l, who: who, party: party}, since: now, given: make(chan struct{})}
	l.line = append(l.line, w)
	l.give(now)
	l.makeRoom(now)
	return w, nil
}

// leave takes a request out of the line; false if it has its turn already.
func (l *Lane) leave(w *waiter) bool {
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
func (l *Lane) uncount(who string) {
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
}

// held counts the turns of each party that it is to keep.
func (l *Lane) held() map[string]int {
	out := map[string]int{}
	for _, t := range l.turns {
		if !t.leaving {
			out[t.party]++
		}
	}
	return out
}

// give gives free turns to those who wait: first to who has the fewest.
func (l *Lane) give(now time.Time) {
	for len(l.turns) < l.Wide && len(l.line) > 0 {
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

// review looks whether somebody has to make room. All who wait ask for it, and one look
// is for all.
func (l *Lane) review() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.reviewed) >= l.Rules.Look/2 {
		l.reviewed = now
		l.makeRoom(now)
	}
}

// makeRoom ends a turn for each who waits and for whom somebody has to go. Where nobody
// has to for one, nobody has to for those of the same party that came later.
func (l *Lane) makeRoom(now time.Time) {
	slow := func(t *Turn) bool {
		_, is := t.slow(now)
		return is
	}
	if len(l.line) == 0 || !l.Resumes && !slices.ContainsFunc(l.turns, slow) {
		return
	}
	going := 0
	for _, t := range l.turns {
		if t.leaving {
			going++
		}
	}
	nobody := map[string]bool{}
	for _, w := range l.line {
		if going > 0 {
			going-- // somebody goes already
			continue
		}
		if nobody[w.turn.party] {
			continue
		}
		if t, why := l.loser(w, now); t != nil {
			t.leaving = true
			t.lose(why)
		} else {
			nobody[w.turn.party] = true
		}
	}
}

// loser is whose turn ends for who waits, and what it is told; nil: nobody's.
func (l *Lane) loser(w *waiter, now time.Time) (*Turn, *Busy) {
	var others []*Turn
	for _, t := range l.turns {
		if !t.leaving && t.party != w.turn.party {
			others = append(others, t)
		}
	}
	for _, t := range others {
		if rate, slow := t.slow(now); slow {
			return t, busy("others wait, and only %s a second arrived where %s are wanted: %s",
				source.FormatBytes(rate), source.FormatBytes(l.Rules.Slowest), l.after())
		}
	}
	if !l.Resumes || now.Sub(w.since) < l.Rules.Courtesy {
		return nil, nil
	}
	held := l.held()
	for _, t := range slices.Backward(others) { // the youngest has the least to lose
		if most := held[t.party]; most > held[w.turn.party]+1 && most == largest(held) {
			return t, busy("others wait, and %d requests of namespace %s are served at once: %s", most, t.party, l.after())
		}
	}
	if len(others) > 0 && held[w.turn.party] == 0 && now.Sub(others[0].began) > l.Rules.Longest {
		return others[0], busy("others wait, and this has taken more than %s: %s", l.Rules.Longest, l.after())
	}
	return nil, nil
}

// after is what becomes of what who loses its turn has sent.
func (l *Lane) after() string {
	if l.Resumes {
		return "what arrived whole is kept, so come again in a moment for the rest"
	}
	return "come again in a moment"
}

func largest(counts map[string]int) int {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	return most
}
