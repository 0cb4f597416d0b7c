package claim

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// TestTake: a name has one holder until it releases the claim.
func TestTake(t *testing.T) {
	name := fmt.Sprintf("muster-test/%d", os.Getpid())
	first, err := Take(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(name); !errors.Is(err, ErrHeld) {
		t.Errorf("a second holder: %v", err)
	}
	other, err := Take(name + "/other")
	if err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := errors.Join(first.Release(), first.Release(), other.Release(), (*Claim)(nil).Release()); err != nil {
		t.Error(err)
	}
	again, err := Take(name)
	if err != nil {
		t.Fatalf("after its release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
