package foreman

import (
	"errors"
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
