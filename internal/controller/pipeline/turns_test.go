package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whoever wants much waits for those who want little.
func TestTurns(t *testing.T) {
	line := turns{atOnce: 2}
	began := []string{}
	want := func(name, namespace string) {
		if line.want(name, namespace) {
			began = append(began, name)
		}
	}
	for i := range 4 {
		want(fmt.Sprintf("a%d", i), "a")
	}
	want("b0", "b")
	want("c0", "c")
	want("b1", "b")
	if diff := cmp.Diff([]string{"a0", "b0"}, began); diff != "" {
		t.Fatal(diff)
	}
	for _, step := range []struct{ ends, next string }{{"a0", "c0"}, {"b0", "a1"}, {"c0", "b1"}, {"b1", ""}, {"a1", "a2"}} {
		next := line.done(step.ends)
		if step.next == "" && len(next) == 0 {
			continue
		}
		if len(next) == 0 || next[0] != step.next {
			t.Fatalf("after %s comes %v, want %s", step.ends, next, step.next)
		}
		if !line.want(next[0], next[0][:1]) {
			t.Fatalf("%s may not begin", next[0])
		}
	}
	line.leave("a3")
	if next := line.done("a2"); len(next) > 0 || len(line.going) > 0 {
		t.Errorf("%v, %v", next, line.going)
	}
	all := turns{}
	for i := range 100 {
		if !all.want(fmt.Sprint(i), "a") {
			t.Fatal("without a bound one waits")
		}
	}
}

// Whatever comes and goes: never more than may be, one of each namespace, and everybody's
// turn comes within as many ends as there are namespaces.
func TestTurnsProperties(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		line := turns{atOnce: 1 + random.IntN(3)}
		namespaces := 1 + random.IntN(6)
		waited := map[string]int{}
		for i := range 300 {
			if random.IntN(3) > 0 {
				space := fmt.Sprint("n", random.IntN(namespaces))
				line.want(fmt.Sprintf("%s.%d", space, i), space)
			} else {
				for name := range line.going {
					line.done(name)
					break
				}
			}
			for _, name := range line.next() {
				for _, w := range line.line {
					if w.name == name {
						line.want(name, w.namespace)
						for other := range waited {
							waited[other]++
						}
						delete(waited, w.namespace)
						break
					}
				}
			}
			busy := map[string]bool{}
			for _, space := range line.going {
				if busy[space] {
					t.Fatalf("seed %d: two copies of %s", seed, space)
				}
				busy[space] = true
			}
			if len(line.going) > line.atOnce {
				t.Fatalf("seed %d: %d copies at once, want %d at most", seed, len(line.going), line.atOnce)
			}
			for _, w := range line.line {
				if _, known := waited[w.namespace]; !known && !busy[w.namespace] {
					waited[w.namespace] = 0
				}
			}
			for space, n := range waited {
				if busy[space] {
					delete(waited, space)
				} else if n > namespaces {
					t.Fatalf("seed %d: %s has waited for %d turns of others", seed, space, n)
				}
			}
		}
	}
}
