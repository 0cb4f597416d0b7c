package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Sizes of a drawing, in its own units.
const (
	boxWidth, boxHeight = 220, 58
	gapX, gapY          = 70, 24
	margin              = 20
)

// slot is a place in a column: the box of a node, or the lane by which edges from a node pass
// the column on their way to a later one.
type slot struct {
	// name is of the node: of the box, or of the one that the edges come from.
	name string
	lane bool
	// x is the left side, y the middle.
	x, y int
}

func (s *slot) height() int {
	if s.lane {
		return 0
	}
	return boxHeight
}

// layout places nodes in columns: each right of all that it reads. An edge is curved between
// columns, and level within them, in a lane where no box is. So it crosses no box.
type layout struct {
	column  map[string]int
	columns [][]*slot
	// at finds the slot of a node's box or lane by column.
	at     []map[string]*slot
	height int
}

func newLayout(nodes []Node) *layout {
	l := &layout{column: map[string]int{}}
	last := map[string]int{} // the last column to which an edge from the node goes
	for i := range nodes {
		n := &nodes[i]
		l.column[n.Name] = 0
		for _, from := range n.Reads {
			l.column[n.Name] = max(l.column[n.Name], l.column[from]+1)
		}
		for _, from := range n.Reads {
			last[from] = max(last[from], l.column[n.Name])
		}
	}
	for i := range nodes {
		name := nodes[i].Name
		l.add(l.column[name], &slot{name: name})
		for c := l.column[name] + 1; c < last[name]; c++ {
			l.add(c, &slot{name: name, lane: true})
		}
	}
	reads := map[string][]string{}
	for i := range nodes {
		reads[nodes[i].Name] = nodes[i].Reads
	}
	for c := range l.columns {
		l.place(c, reads)
	}
	for _, column := range l.columns {
		for _, s := range column {
			s.y += margin + l.height/2
		}
	}
	return l
}

func (l *layout) add(column int, s *slot) {
	for len(l.columns) <= column {
		l.columns = append(l.columns, nil)
		l.at = append(l.at, map[string]*slot{})
	}
	s.x = margin + column*(boxWidth+gapX)
	l.columns[column] = append(l.columns[column], s)
	l.at[column][s.name] = s
}

// place orders the slots of a column by where their edges come from, which keeps edges short,
// and places them around 0.
func (l *layout) place(c int, reads map[string][]string) {
	column := l.columns[c]
	if c > 0 {
		from := map[*slot]int{}
		for _, s := range column {
			from[s] = l.comes(c, s, reads)
		}
		slices.SortStableFunc(column, func(a, b *slot) int { return cmp.Compare(from[a], from[b]) })
	}
	total := gapY * (len(column) - 1)
	for _, s := range column {
		total += s.height()
	}
	l.height = max(l.height, total)
	y := -total / 2
	for _, s := range column {
		s.y = y + s.height()/2
		y += s.height() + gapY
	}
}

// comes is the mean height, in the column before, of the edges to a slot.
func (l *layout) comes(c int, s *slot, reads map[string][]string) int {
	names := reads[s.name]
	if s.lane {
		names = []string{s.name}
	}
	sum := 0
	for _, name := range names {
		sum += l.at[c-1][name].y
	}
	return sum / max(len(names), 1)
}

// size is that of the drawing.
func (l *layout) size() (width, height int) {
	return 2*margin + len(l.columns)*boxWidth + max(0, len(l.columns)-1)*gapX, 2*margin + l.height
}

// box is the top left corner of a node's box.
func (l *layout) box(name string) (x, y int) {
	s := l.at[l.column[name]][name]
	return s.x, s.y - boxHeight/2
}

// edge is the path, as SVG writes it, from a node to one that reads it.
func (l *layout) edge(from, to string) string {
	at := l.at[l.column[from]][from]
	x, y := at.x+boxWidth, at.y
	var path strings.Builder
	_, _ = fmt.Fprintf(&path, "M%d %d", x, y)
	curve := func(next *slot) {
		_, _ = fmt.Fprintf(&path, " C%d %d %d %d %d %d", x+gapX/2, y, next.x-gapX/2, next.y, next.x, next.y)
		x, y = next.x, next.y
	}
	for c := l.column[from] + 1; c < l.column[to]; c++ {
		curve(l.at[c][from])
		x += boxWidth
		_, _ = fmt.Fprintf(&path, " H%d", x)
	}
	curve(l.at[l.column[to]][to])
	return path.String()
}
