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
	if got := p.Reserve("b", 100, now); got != 0 {
		t.Errorf("more than a burst, of another namespace: after %s", got)
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
