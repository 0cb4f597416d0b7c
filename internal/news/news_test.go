package news

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func TestTurn(t *testing.T) {
	now := time.Unix(1000, 0)
	turns := New()
	for i := range atOnce {
		if wait := Turn(turns, now, Within); wait != 0 {
			t.Fatalf("the %dth waits for %s", i+1, wait)
		}
	}
	for i := range 3 {
		if wait, want := Turn(turns, now, Within), time.Duration(i+1)*time.Second/perSecond; wait != want {
			t.Errorf("the %dth after that waits for %s, want %s", i+1, wait, want)
		}
	}
	// Who cannot wait for its turn takes none from others.
	for range 2 {
		if wait := Turn(turns, now, time.Second/perSecond); wait != time.Second/perSecond {
			t.Errorf("who cannot wait waits for %s", wait)
		}
	}
	if wait, want := Turn(turns, now, Within), 4*time.Second/perSecond; wait != want {
		t.Errorf("the next waits for %s, want %s", wait, want)
	}
	if wait := Turn(rate.NewLimiter(0, 0), now, Within); wait != Within {
		t.Errorf("where there are no turns it waits for %s", wait)
	}
}
