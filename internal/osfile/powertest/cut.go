//go:build linux

package powertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fates is the number of ways in which each cut ends: once everything that was not
// synced is lost, else each file and each folder loses it or not, at random.
const fates = 4

// EveryCut runs trial on a new disk of its own for every change that its course
// makes, with the power cut at that change, and once with the power cut after the
// course. trial gets the mount point. It prepares what the course needs, calls
// powered once with the course, and then checks what is left: the power is back by
// then. Without a cut an error of the course fails the test.
func EveryCut(t *testing.T, trial func(t *testing.T, dir string, powered func(course func() error))) {
	t.Helper()
	cuts := 0
	for at := 0; at <= cuts && !t.Failed(); at++ {
		for fate := range fates {
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
