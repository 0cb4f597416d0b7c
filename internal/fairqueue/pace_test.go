package fairqueue

import (
	"fmt"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	p := NewPace(2, 3)
	for i, want := range []time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second} {
		if got := p.Reserve("a", 1, now); got != want {
			t.Errorf("token %d after %s, want %s", i, got, want)
		}
	}
	if got, want := p.Reserve("b", 100, now), 97*time.Second/2; got != want {
		t.Errorf("more than a burst, of another namespace: after %s, want %s", got, want)
	}
	if p.Allow("a", now) || !p.Allow("c", now) {
		t.Error("a has no token left, and c has three")
	}
	for i := range 100 {
		p.Reserve(fmt.Sprint(i), 1, now.Add(time.Duration(i)*time.Hour))
	}
	if len(p.buckets) > 2 {
		t.Errorf("%d namespaces are remembered", len(p.buckets))
	}
}

// TestPaceForgets: tokens that were reserved and not used delay others for minutes, not for ever.
func TestPaceForgets(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	p := NewPace(2, 3)
	for range 10_000 {
		if got := p.Reserve("a", 1, now); got > longestWait {
			t.Fatalf("a token after %s, want at most %s", got, longestWait)
		}
	}
	if got := p.Reserve("a", 1_000_000, now); got != longestWait {
		t.Errorf("many tokens after %s, want %s", got, longestWait)
	}
	if got := p.Reserve("a", 1, now.Add(longestWait+time.Minute)); got != 0 {
		t.Errorf("once the reserved tokens are there, one more after %s, want at once", got)
	}
}
