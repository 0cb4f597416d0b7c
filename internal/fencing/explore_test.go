package fencing_test

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// label says what happened, in numbers that are put into words late.
type label struct {
	kind    kind
	a, b, c uint8
}

// print is a state's hash, of 128 bits: two states with the same are taken for
// one. Among ten million states that happens once in 10^24 runs.
type print [2]uint64

// machine is a model that can be explored, with states of one kind.
type machine[S comparable] interface {
	initial() S
	// successors calls emit with everything that can happen next.
	successors(s *S, emit func(S, label))
	// tidy removes from a state what can make no difference any more.
	tidy(s *S)
	// twins are a state and those that differ from it in names alone.
	twins(s S) []S
	// broken says what does not hold in a state; empty: everything does.
	broken(s *S) string
	// goal reports whether everything has come to its end.
	goal(s *S) bool
}

// explorer visits every state that can be reached, breadth first, and keeps of
// each its hash, how it was reached first, and what can follow.
type explorer[S comparable] struct {
	model machine[S]
	seeds [2]maphash.Seed
	known map[print]uint32
	// from and nth say of each state which it was first reached from, and as
	// the how manieth of what can follow that.
	from []uint32
	nth  []uint16
	// follow are the successors of all states, one state after the other; of
	// state i from first[i] to first[i+1].
	first  []uint32
	follow []uint32
	goals  []uint32
}

// limit is how many states are explored at most.
const limit = 3_000_000

// result is what an exploration found.
type result struct {
	states, steps int
	// broken says what does not hold; empty: everything does.
	broken string
	trace  []string
}

func explore[S comparable](m machine[S]) result {
	x := &explorer[S]{model: m, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, known: map[print]uint32{}}
	queue := []S{m.initial()}
	x.number(queue[0], 0, 0)
	for at := uint32(0); len(queue) > 0; at++ {
		s := queue[0]
		queue = queue[1:]
		if len(x.from) > limit {
			return result{states: len(x.from), steps: len(x.follow), broken: "the model has become too large to explore"}
		}
		if broken := m.broken(&s); broken != "" {
			return x.result(broken, at)
		}
		if m.goal(&s) {
			x.goals = append(x.goals, at)
		}
		x.first = append(x.first, uint32(len(x.follow)))
		nth := uint16(0)
		m.successors(&s, func(next S, _ label) {
			m.tidy(&next)
			i, fresh := x.number(next, at, nth)
			nth++
			x.follow = append(x.follow, i)
			if fresh {
				queue = append(queue, next)
			}
		})
	}
	x.first = append(x.first, uint32(len(x.follow)))
	if stuck, ok := x.stuck(); ok {
		return x.result("from here no gang and pod ever gets to its end, whatever happens", stuck)
	}
	return result{states: len(x.from), steps: len(x.follow)}
}

// number returns a state's number, giving it one if it is new.
func (x *explorer[S]) number(s S, from uint32, nth uint16) (uint32, bool) {
	key := x.print(s)
	if i, ok := x.known[key]; ok {
		return i, false
	}
	i := uint32(len(x.from))
	x.known[key] = i
	x.from, x.nth = append(x.from, from), append(x.nth, nth)
	return i, true
}

// print is the hash of a state, the same for all that differ in names alone.
func (x *explorer[S]) print(s S) print {
	var out print
	for i, twin := range x.model.twins(s) {
		if h := maphash.Comparable(x.seeds[0], twin); i == 0 || h < out[0] {
			out, s = print{h}, twin
		}
	}
	out[1] = maphash.Comparable(x.seeds[1], s)
	return out
}

// stuck returns the first state from which no goal can be reached.
func (x *explorer[S]) stuck() (uint32, bool) {
	n := len(x.from)
	start := make([]uint32, n+1)
	for _, to := range x.follow {
		start[to+1]++
	}
	for i := range n {
		start[i+1] += start[i]
	}
	before, fill := make([]uint32, len(x.follow)), append([]uint32(nil), start...)
	for at := range n {
		for _, to := range x.follow[x.first[at]:x.first[at+1]] {
			before[fill[to]] = uint32(at)
			fill[to]++
		}
	}
	reaches := make([]bool, n)
	queue := append([]uint32(nil), x.goals...)
	for _, g := range queue {
		reaches[g] = true
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, b := range before[start[at]:start[at+1]] {
			if !reaches[b] {
				reaches[b] = true
				queue = append(queue, b)
			}
		}
	}
	for i, ok := range reaches {
		if !ok {
			return uint32(i), true
		}
	}
	return 0, false
}

// result tells the shortest way to a state.
func (x *explorer[S]) result(broken string, at uint32) result {
	var way []uint16
	for i := at; i != 0; i = x.from[i] {
		way = append(way, x.nth[i])
	}
	out := result{states: len(x.from), steps: len(x.follow), broken: broken}
	s := x.model.initial()
	for i := len(way) - 1; i >= 0; i-- {
		nth, was := uint16(0), s
		x.model.successors(&was, func(next S, l label) {
			if nth == way[i] {
				x.model.tidy(&next)
				s = next
				out.trace = append(out.trace, l.String())
			}
			nth++
		})
	}
	return out
}

// String is the violation and the way to it, one step a line.
func (r result) String() string {
	if r.broken == "" {
		return fmt.Sprintf("%d states, %d steps, nothing broken", r.states, r.steps)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, after %d steps (%d states seen):", r.broken, len(r.trace), r.states)
	for i, line := range r.trace {
		fmt.Fprintf(&b, "\n  %2d. %s", i+1, line)
	}
	return b.String()
}
