package door

import (
	"context"
	"errors"
	"testing"
)

func TestNobodyKeepsAllOthersOut(t *testing.T) {
	l := newLane(3, 2)
	enter := func(who string) (func(), error) { return l.in(t.Context(), who) }
	first, err := enter("ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enter("ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := enter("ada"); refusalOf(err).Status != 429 || refusalOf(err).RetryAfter == 0 {
		t.Errorf("a third one of the same: %v", err)
	}
	if _, err := enter("bob"); err != nil {
		t.Errorf("another: %v", err)
	}
	// Full: who gives up waiting is not counted.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if _, err := l.in(gone, "bob"); !errors.Is(err, context.Canceled) {
			t.Errorf("in a full lane: %v", err)
		}
	}
	first()
	if out, err := enter("bob"); err != nil {
		t.Errorf("after one has left: %v", err)
	} else {
		out()
	}
	if out, err := enter("ada"); err != nil {
		t.Errorf("the first again: %v", err)
	} else {
		out()
	}
}
