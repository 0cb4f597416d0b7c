//go:build fuse

package environment

import (
	"os"
	"testing"

	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfPruning: an environment that is in its place after a loss of power during a
// prune is whole.
func TestPowerOfPruning(t *testing.T) {
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		stays := built(t, dir, keyOf(1), true, day, 0)
		goes := []string{built(t, dir, keyOf(2), true, 30*day, 0), built(t, dir, keyOf(3), true, 30*day, 20*day)}
		pruned := false
		powered(func() error {
			_, err := Prune(t.Context(), dir, rule(14*day))
			pruned = err == nil
			return err
		})
		if !intact(stays) {
			t.Fatal("the environment that stays is not intact")
		}
		for _, home := range goes {
			_, ready := readyAt(home)
			_, err := os.Lstat(home)
			if ready && !intact(home) || pruned && err == nil {
				t.Fatalf("%s is neither whole nor gone", home)
			}
		}
		if _, err := Prune(t.Context(), dir, rule(14*day)); err != nil {
			t.Fatalf("going on: %v", err)
		}
	})
}
