//go:build linux

package powertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fates is the number of ways in which a cut ends: fate 0 loses everything that was
// not synced; by the others each file and each folder loses it or not, at random.
const fates = 4

// Fates are the fates to try for the cut at a change.
type Fates func(at int) []int

// AllIsLost tries fate 0 for each cut.
func AllIsLost(int) []int { return []int{0} }

// InTurn tries one fate for each cut, for courses that take long.
func InTurn(at int) []int { return []int{at % fates} }

// Each tries all fates for each cut.
func Each(int) []int { return []int{0, 1, 2, 3} }

// EveryCut runs trial on a new disk of its own for every change that its course
// makes, with the power cut at that change, and with the power cut after the
// course. trial gets the mount point. It prepares the disk for the course, calls
// powered once with the course, and then checks the disk. powered makes the prepared
// state durable, and the power is back when it returns. Without a cut an error of the
// course fails the test.
func EveryCut(t *testing.T, tried Fates, trial func(t *testing.T, dir string, powered func(course func() error))) {
	t.Helper()
	cuts := 0
	for at := 0; at <= cuts && !t.Failed(); at++ {
		for _, fate := range tried(at) {
			name := fmt.Sprintf("at change %d of %d, fate %d", at, cuts, fate)
			if at == 0 {
				name = fmt.Sprintf("after the course, fate %d", fate)
			}
			t.Run(name, func(t *testing.T) {
				if changes := cut(t, at, fate, trial); at == 0 {
					cuts = max(cuts, changes)
				}
			})
		}
	}
	if cuts == 0 && !t.Failed() {
		t.Fatal("the course changed nothing on the disk")
	}
}

// cut runs trial with one cut, and returns the number of changes of the course.
func cut(t *testing.T, at, fate int, trial func(*testing.T, string, func(func() error))) (changes int) {
	t.Helper()
	d := Mount(t)
	called := false
	trial(t, d.Dir(), func(course func() error) {
		called = true
		d.Restore(func() bool { return false }) // the prepared state becomes durable
		d.CutAt(at)
		err := course()
		changes = d.Changes()
		if err != nil && at == 0 {
			t.Fatal(err)
		}
		var lost func() bool
		if fate > 0 {
			random := rand.New(rand.NewPCG(uint64(at), uint64(fate)))
			lost = func() bool { return random.IntN(2) == 0 }
		}
		d.Restore(lost)
	})
	if !called {
		t.Fatal("the trial ran no course")
	}
	return changes
}
