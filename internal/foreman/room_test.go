package foreman

import (
	"errors"
	"math"
	"testing"

	"github.com/muster-dev/muster/internal/foreman/parcel"
)

// No owner has more than half, nothing is more than all, and the first of those that
// arrive gets further.
func TestRoom(t *testing.T) {
	r := newRoom(100)
	now := make(chan struct{})
	close(now) // nobody waits
	first, second, other := r.enter("a"), r.enter("a"), r.enter("b")
	for _, h := range []*hold{first, second} {
		if err := h.take(25, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.take(50, now); err != nil {
		t.Errorf("half of it is another's: %v", err)
	}
	if got := r.judge(first, 1); got != waits {
		t.Errorf("the first of an owner with half of it: %v", got)
	}
	if got := r.judge(second, 1); got != yields {
		t.Errorf("the second: %v", got)
	}
	if err := second.take(1, now); !errors.Is(err, errFull) {
		t.Errorf("the second is told %v", err)
	}
	var refused *parcel.Refusal
	if err := other.take(1, now); !errors.As(err, &refused) {
		t.Errorf("more than half in one: %v", err)
	}
	answer := make(chan error)
	go func() { answer <- first.take(25, nil) }()
	second.free()
	if err := <-answer; err != nil {
		t.Errorf("once there is room: %v", err)
	}
	first.arrived()
	other.arrived()
	third := r.enter("a")
	if got := r.judge(third, 1); got != waits {
		t.Errorf("what arrived counts until it is recorded: %v", got)
	}
	for _, h := range []*hold{first, third, other, nil} {
		h.free()
	}
	if r.taken != 0 || len(r.by) != 0 || len(r.line) != 0 {
		t.Errorf("left: %d, %v, %d in line", r.taken, r.by, len(r.line))
	}
	boundless := newRoom(0)
	if err := boundless.enter("a").take(1<<60, now); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

// What is said of a size is anything: it neither makes room nor gives any back.
func TestRoomLies(t *testing.T) {
	now := make(chan struct{})
	close(now)
	for name, c := range map[string]struct {
		has, says int64
		refused   bool
	}{
		"as much as there are numbers": {0, math.MaxInt64, true},
		"that beside what it has":      {10, math.MaxInt64, true},
		"less than nothing":            {10, math.MinInt64, false},
		"more than half":               {0, 51, true},
		"half":                         {0, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(100)
			other, h := r.enter("a"), r.enter("a")
			if c.has > 0 {
				if err := errors.Join(other.take(c.has, now), h.take(c.has, now)); err != nil {
					t.Fatal(err)
				}
			}
			var refused *parcel.Refusal
			if err := h.expect(c.says, now); errors.As(err, &refused) != c.refused || !c.refused && err != nil {
				t.Errorf("%v", err)
			}
			if err := h.use(-1<<40, now); err != nil || h.said < 0 || h.said > 50 || r.taken < 2*c.has || r.taken > 100 {
				t.Errorf("%v; %d of what was said, %d taken", err, h.said, r.taken)
			}
		})
	}
}
