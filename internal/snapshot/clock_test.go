package snapshot

import (
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

func TestJump(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	tests := []struct {
		name string
		// wall and passed are how far the clock and time went on.
		wall, passed time.Duration
		want         time.Duration
	}{
		{"runs", time.Hour, time.Hour, 0},
		{"a little fast", time.Hour + time.Second, time.Hour, 0},
		{"set forward", 13 * time.Hour, time.Hour, 12 * time.Hour},
		{"set back", -2 * time.Hour, time.Minute, -2*time.Hour - time.Minute},
		{"the machine slept", 8 * time.Hour, time.Second, 8*time.Hour - time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p pace
			if by := p.jump(start, time.Hour); by != 0 {
				t.Errorf("the first look jumped by %v", by)
			}
			if by := p.jump(start.Add(tt.wall), time.Hour+tt.passed); by != tt.want {
				t.Errorf("jumped by %v, want %v", by, tt.want)
			}
			if by := p.jump(start.Add(tt.wall+time.Minute), time.Hour+tt.passed+time.Minute); by != 0 {
				t.Errorf("it jumped twice, by %v", by)
			}
		})
	}
}

// What began a moment before the clock was set forward by days began a moment
// ago.
func TestClockSetForward(t *testing.T) {
	s := newStore(t, 1)
	var passed time.Duration
	s.loop.options.Passed = func() time.Duration { return passed }
	put(s, s.nodes, testNode(4))
	g := testGang("first", 2, "1")
	put(s, s.gangs, g)
	decide := func() scheduling.Result {
		s.loop.watchClock(s.now)
		s.loop.tell(t.Context(), s.now)
		return s.loop.core.Decide(conversion.Instant(s.now))
	}
	s.carryOut(decide().Plans)
	for _, p := range s.sent {
		put(s, s.placements, p)
	}
	s.now, passed = s.now.Add(90*24*time.Hour), time.Minute
	decide()
	x, ok := s.loop.core.Explain(string(g.UID), conversion.Instant(s.now))
	if !ok || x.Tenure == nil {
		t.Fatalf("not placed: %+v", x)
	}
	if left := time.Duration(x.Tenure.SafeUntil - conversion.Instant(s.now)); left != 5*time.Minute {
		t.Errorf("safe for %v more, want 5m: it began a minute ago", left)
	}
}
