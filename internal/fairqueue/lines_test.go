package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// waiting is an item of the model that TestLines compares lines with.
type waiting struct {
	name, group string
	priority    int
	// alone is true if its group had no item of its priority when it came.
	alone bool
	// passed counts the items of each other group that lines served meanwhile.
	passed map[string]int
}

// model holds the waiting items, in order of arrival.
type model struct {
	t     *testing.T
	items []waiting
	// ahead is the expected value of lines.ahead.
	ahead int
}

func (m *model) push(name, group string, priority int) {
	if i := slices.IndexFunc(m.items, func(w waiting) bool { return w.name == name }); i >= 0 {
		if priority <= m.items[i].priority {
			return
		}
		m.items = slices.Delete(m.items, i, i+1)
	}
	alone := !slices.ContainsFunc(m.items, func(w waiting) bool { return w.group == group && w.priority == priority })
	m.items = append(m.items, waiting{name: name, group: group, priority: priority, alone: alone, passed: map[string]int{}})
}

// served checks an item that lines served.
func (m *model) served(name string, priority int) {
	m.t.Helper()
	i := slices.IndexFunc(m.items, func(w waiting) bool { return w.name == name })
	if i < 0 {
		m.t.Fatalf("%s was served and does not wait", name)
	}
	got := m.items[i]
	if got.priority != priority {
		m.t.Fatalf("%s was served with priority %d, want %d", name, priority, got.priority)
	}
	m.turn(got)
	for j, w := range m.items {
		if w.priority != got.priority {
			continue
		}
		if w.group == got.group && j < i {
			m.t.Fatalf("%s was served before %s of its group, which came earlier", name, w.name)
		}
		if w.passed[got.group]++; w.alone && w.group != got.group && w.passed[got.group] > 1 {
			m.t.Fatalf("%s is the first of its group and waited for %d items of group %s", w.name, w.passed[got.group], got.group)
		}
	}
	m.items = slices.Delete(m.items, i, i+1)
}

// turn checks that an item has the highest priority, or that lines served mostAhead items of the
// highest priority in a row while items of other priorities waited.
func (m *model) turn(got waiting) {
	m.t.Helper()
	highest, others := got.priority, false
	for _, w := range m.items {
		highest = max(highest, w.priority)
		others = others || w.priority != got.priority
	}
	switch early := highest > got.priority; {
	case early != (others && m.ahead == mostAhead):
		m.t.Fatalf("%s with priority %d was served after %d items of priority %d", got.name, got.priority, m.ahead, highest)
	case early || !others:
		m.ahead = 0
	default:
		m.ahead++
	}
}

// A flood of urgent items does not starve items of lower priorities.
func TestNoPriorityStarves(t *testing.T) {
	l := newLines[string]()
	l.push("low", "ada", -100)
	l.push("lower", "ada", -200)
	for i := range mostAhead {
		l.push(fmt.Sprint(i), "eve", 0)
	}
	var served []string
	for i := range 3 * (mostAhead + 1) {
		item, priority, _ := l.pop()
		if priority < 0 {
			served = append(served, item)
		}
		l.push(fmt.Sprint(i, " again"), "eve", 0)
	}
	slices.Sort(served)
	if !slices.Equal(served, []string{"low", "lower"}) {
		t.Errorf("of the items with lower priorities were served %v", served)
	}
}

func TestLines(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			l, m := newLines[string](), &model{t: t}
			for step := range 400 {
				switch k := random.IntN(10); {
				case k < 6:
					// One group has most of the items.
					group := fmt.Sprint(max(0, random.IntN(12)-6))
					name, priority := fmt.Sprintf("%s/%d", group, random.IntN(step+1)), (random.IntN(8)-6)/3
					l.push(name, group, priority)
					m.push(name, group, priority)
				case k < 9:
					if name, priority, ok := l.pop(); ok {
						m.served(name, priority)
					} else if len(m.items) > 0 {
						t.Fatalf("nothing is served and %d items wait", len(m.items))
					}
				case len(m.items) > 0:
					i := random.IntN(len(m.items))
					name := m.items[i].name
					m.items = slices.Delete(m.items, i, i+1)
					if !l.remove(name) || l.remove(name) {
						t.Fatalf("%s was not removed once", name)
					}
				}
				if l.len() != len(m.items) {
					t.Fatalf("%d items wait, want %d", l.len(), len(m.items))
				}
			}
			for l.len() > 0 {
				name, priority, _ := l.pop()
				m.served(name, priority)
			}
			if len(m.items) > 0 || len(l.levels) > 0 {
				t.Errorf("%d items are lost, and %d levels are left", len(m.items), len(l.levels))
			}
		})
	}
}

// Groups without items take no memory, and a flood leaves none behind.
func TestEmptyGroupsTakeNoMemory(t *testing.T) {
	l := newLines[int]()
	l.push(-1, "other", 0)
	for i := range 10 * roomy {
		l.push(i, fmt.Sprint(i), 0)
	}
	for range 10 * roomy {
		l.pop()
	}
	if groups := len(l.levels[0].groups); groups != 1 || l.len() != 1 || l.levels[0].turns.Len() != 1 {
		t.Errorf("one item waits, and %d groups, %d places and %d turns are kept", groups, l.len(), l.levels[0].turns.Len())
	}
	before := l.most
	l.pop()
	if before != 10*roomy+1 || l.most != 0 || len(l.levels) != 0 {
		t.Errorf("the map of a flood of %d items is kept: %d, with %d levels", before, l.most, len(l.levels))
	}
}
