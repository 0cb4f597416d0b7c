package crafted

import (
	"iter"
	"math/rand/v2"
	"testing"
	"time"
)

// Trees yields random trees for a property test: full of them, and few with -short. The test's log
// has their seed.
func Trees(t testing.TB, few, full int) iter.Seq[map[string]string] {
	t.Helper()
	if testing.Short() {
		full = few
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	return func(yield func(map[string]string) bool) {
		for range full {
			if !yield(Random(random)) {
				return
			}
		}
	}
}

// Check ends a test if the tree in a folder is not the wanted one. The words say how it came there,
// such as "is mounted".
func Check(t testing.TB, want map[string]string, how, folder string) {
	t.Helper()
	got, err := Found(folder)
	if err != nil {
		t.Fatal(err)
	}
	if says := Differ(want, got); says != "" {
		t.Fatalf("%v %s %s", want, how, says)
	}
}
