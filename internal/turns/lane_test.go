package turns

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A caller has its share, and who gives up waiting is not counted.
func TestNobodyKeepsAllOthersOut(t *testing.T) {
	l := New(3, 2, time.Now)
	enter := func(who string) (*Turn, error) { return l.In(t.Context(), who, who) }
	first, err := enter("ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enter("ada"); err != nil {
		t.Fatal(err)
	}
	_, err = enter("ada")
	if busy, ok := errors.AsType[*Busy](err); !ok || busy.After == 0 {
		t.Errorf("a third one of the same: %v", err)
	}
	if _, err := enter("bob"); err != nil {
		t.Errorf("another: %v", err)
	}
	// Full: who gives up waiting is not counted.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if _, err := l.In(gone, "bob", "bob"); !errors.Is(err, context.Canceled) {
			t.Errorf("in a full lane: %v", err)
		}
	}
	first.Out()
	for _, who := range []string{"bob", "ada"} {
		turn, err := enter(who)
		if err != nil {
			t.Fatalf("%s, after one has left: %v", who, err)
		}
		turn.Out()
	}
}

// Whose turn ends for somebody who waits, and when.
func TestWhoMakesRoom(t *testing.T) {
	standing := Standing()
	slow := pace{waited: standing.Window, moved: standing.Slowest * 2}
	steady := pace{waited: standing.Window, moved: standing.Slowest * 100}
	stalled := pace{since: time.Unix(1000, 0).Add(-standing.Window)}
	fresh := pace{since: time.Unix(1000, 0).Add(-standing.Window / 2)}
	held := func(party string, p pace, ago time.Duration) *Turn {
		return &Turn{who: party, party: party, pace: p, began: time.Unix(1000, 0).Add(-ago)}
	}
	for name, c := range map[string]struct {
		turns  []*Turn
		waits  string
		waited time.Duration
		final  bool // little can be taken up again
		want   int  // -1: nobody
		says   string
	}{
		"all keep to the pace, and have their part": {turns: []*Turn{held("a", steady, 0), held("b", steady, 0)}, waits: "c", waited: standing.Courtesy, want: -1},
		"one is slow":                          {turns: []*Turn{held("a", steady, 0), held("b", slow, 0)}, waits: "c", want: 1, says: "only 16 KiB a second"},
		"one has stalled":                      {turns: []*Turn{held("a", steady, 0), held("b", stalled, 0)}, waits: "c", want: 1, says: "only 0 B a second"},
		"one is slow that cannot resume":       {turns: []*Turn{held("a", stalled, 0)}, waits: "c", final: true, want: 0, says: "only 0 B"},
		"one has not been there for long":      {turns: []*Turn{held("a", fresh, 0)}, waits: "c", want: -1},
		"one's own is slow":                    {turns: []*Turn{held("a", stalled, 0)}, waits: "a", waited: time.Hour, want: -1},
		"one has more than its part":           {turns: []*Turn{held("a", steady, 3), held("b", steady, 2), held("b", steady, 1)}, waits: "c", waited: standing.Courtesy, want: 2, says: "2 requests of namespace b"},
		"of two with more the one with most":   {turns: []*Turn{held("a", steady, 3), held("a", steady, 2), held("a", steady, 1), held("b", steady, 1), held("b", steady, 1)}, waits: "c", waited: standing.Courtesy, want: 2, says: "3 requests of namespace a"},
		"more, but a moment has to be waited":  {turns: []*Turn{held("b", steady, 2), held("b", steady, 1)}, waits: "c", want: -1},
		"more, but it would be lost":           {turns: []*Turn{held("b", steady, 2), held("b", steady, 1)}, waits: "c", waited: standing.Courtesy, final: true, want: -1},
		"who has as many as will be left":      {turns: []*Turn{held("b", steady, 2), held("b", steady, 1), held("c", steady, 1)}, waits: "c", waited: standing.Courtesy, want: -1},
		"one has been at it for very long":     {turns: []*Turn{held("a", steady, standing.Longest+1), held("b", steady, 0)}, waits: "c", waited: standing.Courtesy, want: 0, says: "10m0s"},
		"very long, but who waits has one too": {turns: []*Turn{held("a", steady, standing.Longest+1), held("c", steady, 0)}, waits: "c", waited: standing.Courtesy, want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			l := New(len(c.turns), 3, func() time.Time { return now })
			l.Resumes, l.turns = !c.final, c.turns
			for _, turn := range c.turns {
				turn.lane = l
			}
			got, why := l.loser(&waiter{turn: &Turn{who: c.waits, party: c.waits}, since: now.Add(-c.waited)}, now)
			switch {
			case c.want < 0 && got != nil:
				t.Errorf("it ends for one of %s: %v", got.party, why)
			case c.want >= 0 && (got != c.turns[c.want] || why.After == 0 || !strings.Contains(why.Text, c.says)):
				t.Errorf("%+v: %v", got, why)
			}
		})
	}
}

// Turns that become free go to those who have the fewest.
func TestWhoComesNext(t *testing.T) {
	l := New(2, 9, time.Now)
	var turns []*Turn
	for range 2 {
		turn, err := l.In(t.Context(), "ada", "ada")
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
	}
	came := make(chan string, 2)
	for i, who := range []string{"ada", "bob"} {
		go func() {
			turn, err := l.In(t.Context(), who, who)
			came <- fmt.Sprint(who, err)
			if err == nil {
				turn.Out()
			}
		}()
		for lined := 0; lined <= i; { // it tells nobody that it stands in line
			l.mu.Lock()
			lined = len(l.line)
			l.mu.Unlock()
			runtime.Gosched()
		}
	}
	turns[0].Out()
	if first, second := <-came, <-came; first != "bob<nil>" || second != "ada<nil>" {
		t.Errorf("%s came before %s", first, second)
	}
}

// A lane with thousands who wait, as a gateway has connections: what one more costs, and
// one that goes. Of 256 turns and 3,840 who wait, most are of one namespace.
func BenchmarkCrowd(b *testing.B) {
	l := New(256, 1<<20, time.Now)
	for i := range 4096 {
		party := "crowd"
		if i%64 == 0 {
			party = fmt.Sprint("other-", i)
		}
		if _, err := l.join(party, party); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		w, err := l.join("crowd", "crowd")
		if err != nil {
			b.Fatal(err)
		}
		l.review()
		if !l.leave(w) {
			b.Fatal("it had its turn")
		}
	}
}
