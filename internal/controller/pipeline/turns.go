package pipeline

import "slices"

// turns say which copies are made, where several namespaces want some at once: of each
// namespace one at a time, and of those that wait the one whose namespace had its last
// turn the longest ago. They are plain data, and do nothing by themselves.
type turns struct {
	// atOnce is how many are made at a time; 0: all.
	atOnce int
	line   []turn // in the order in which they came
	going  map[string]string
	// last is when each namespace had its last turn.
	last  map[string]uint64
	count uint64
}

// turn is a copy that waits: its name, and whose it is.
type turn struct{ name, namespace string }

// want says whether a copy may begin now, and has it wait if it may not.
func (t *turns) want(name, namespace string) bool {
	if t.atOnce == 0 {
		return true
	}
	if t.going[name] != "" {
		return true
	}
	if !slices.ContainsFunc(t.line, func(w turn) bool { return w.name == name }) {
		t.line = append(t.line, turn{name, namespace})
	}
	if !slices.Contains(t.next(), name) {
		return false
	}
	t.leave(name)
	if t.going == nil {
		t.going, t.last = map[string]string{}, map[string]uint64{}
	}
	t.count++
	t.going[name], t.last[namespace] = namespace, t.count
	return true
}

// next are the copies that may begin now.
func (t *turns) next() []string {
	busy := map[string]bool{}
	for _, namespace := range t.going {
		busy[namespace] = true
	}
	var first []turn // of each namespace that has none going
	for _, w := range t.line {
		if !busy[w.namespace] {
			busy[w.namespace] = true
			first = append(first, w)
		}
	}
	slices.SortStableFunc(first, func(a, b turn) int {
		switch at, than := t.last[a.namespace], t.last[b.namespace]; {
		case at < than:
			return -1
		case at > than:
			return 1
		}
		return 0
	})
	var out []string
	for _, w := range first[:min(len(first), max(0, t.atOnce-len(t.going)))] {
		out = append(out, w.name)
	}
	return out
}

// done says that a copy is over, and returns those that may begin now.
func (t *turns) done(name string) []string {
	delete(t.going, name)
	if len(t.line) == 0 {
		clear(t.last) // nobody waits who would have to be before somebody
	}
	return t.next()
}

// leave takes a copy out of the line.
func (t *turns) leave(name string) {
	t.line = slices.DeleteFunc(t.line, func(w turn) bool { return w.name == name })
}
