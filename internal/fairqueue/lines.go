package fairqueue

import (
	"cmp"
	"container/list"
	"slices"
)

// lines holds the items that wait. An operation costs O(1) plus the number of priorities in
// use. Groups and priorities without items take no memory. Callers hold a lock.
type lines[T comparable] struct {
	// levels are those with items, the highest priority first.
	levels []*level[T]
	places map[T]*place[T]
	// most is the largest number of items since places was made.
	most int
	// ahead is how many items of the highest priority were served in a row while others
	// waited, and lower counts the items that were served after that.
	ahead, lower int
}

// mostAhead is how many items of the highest priority are served before one of another
// priority that waits: a flood of urgent items starves none.
const mostAhead = 16

// level holds the items of one priority.
type level[T comparable] struct {
	priority int
	groups   map[string]*group[T]
	// turns are the groups, the next one first.
	turns list.List
}

// group holds the items of one namespace, the oldest first.
type group[T comparable] struct {
	name  string
	items list.List
	turn  *list.Element
}

// place is where an item waits.
type place[T comparable] struct {
	item  T
	level *level[T]
	group *group[T]
	at    *list.Element
}

// roomy is how many items lines may have held without making a new map once they are empty:
// a Go map never shrinks.
const roomy = 1024

func newLines[T comparable]() lines[T] { return lines[T]{places: map[T]*place[T]{}} }

func (l *lines[T]) len() int { return len(l.places) }

// push adds an item at the end of its group. An item that waits already moves only to a higher
// priority.
func (l *lines[T]) push(item T, name string, priority int) {
	if p := l.places[item]; p != nil {
		if priority <= p.level.priority {
			return
		}
		l.remove(item)
	}
	at := l.level(priority)
	g := at.groups[name]
	if g == nil {
		g = &group[T]{name: name}
		g.turn = at.turns.PushBack(g)
		at.groups[name] = g
	}
	p := &place[T]{item: item, level: at, group: g}
	p.at = g.items.PushBack(p)
	l.places[item] = p
	l.most = max(l.most, len(l.places))
}

// level returns the level of a priority, and makes it if there is none.
func (l *lines[T]) level(priority int) *level[T] {
	at, found := slices.BinarySearchFunc(l.levels, priority, func(v *level[T], p int) int { return cmp.Compare(p, v.priority) })
	if !found {
		l.levels = slices.Insert(l.levels, at, &level[T]{priority: priority, groups: map[string]*group[T]{}})
	}
	return l.levels[at]
}

// pop takes the next item, and moves its group behind the others. It is false if none waits.
func (l *lines[T]) pop() (item T, priority int, ok bool) {
	if len(l.levels) == 0 {
		return item, 0, false
	}
	first := l.levels[l.next()]
	g := first.turns.Front().Value.(*group[T])
	first.turns.MoveToBack(g.turn)
	item = g.items.Front().Value.(*place[T]).item
	l.remove(item)
	return item, first.priority, true
}

// next is the level that is served next: the highest, and after mostAhead items of it one of
// the others, in turn.
func (l *lines[T]) next() int {
	others := len(l.levels) - 1
	switch {
	case others == 0:
		l.ahead = 0
	case l.ahead < mostAhead:
		l.ahead++
	default:
		l.ahead = 0
		l.lower++
		return 1 + l.lower%others
	}
	return 0
}

// remove takes an item out; false if it does not wait.
func (l *lines[T]) remove(item T) bool {
	p := l.places[item]
	if p == nil {
		return false
	}
	delete(l.places, item)
	p.group.items.Remove(p.at)
	if p.group.items.Len() == 0 {
		p.level.turns.Remove(p.group.turn)
		delete(p.level.groups, p.group.name)
	}
	if len(p.level.groups) == 0 {
		l.levels = slices.DeleteFunc(l.levels, func(v *level[T]) bool { return v == p.level })
	}
	if len(l.places) == 0 && l.most > roomy {
		*l = newLines[T]()
	}
	return true
}
