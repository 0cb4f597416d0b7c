package pipeline

import (
	"context"
	"maps"
	"slices"
)

// delta is what differs in an input between two versions of its sources.
type delta struct {
	// is are elements that are new or have other files than before; fresh are the
	// names of those that are new.
	is    []element
	fresh map[string]bool
	// gone are the names of those that are not there any more.
	gone []string
}

func (d *delta) empty() bool { return len(d.is)+len(d.gone) == 0 }

func (d *delta) add(e element, fresh bool) {
	d.is = append(d.is, e)
	if fresh {
		if d.fresh == nil {
			d.fresh = map[string]bool{}
		}
		d.fresh[e.name] = true
	}
}

// comparison compares two versions of a stage's sources.
type comparison struct {
	old, now *reader
}

// delta is what differs in an input. It costs what differs: for a cross also the
// other sides of what differs, whose products with it are new.
func (c *comparison) delta(ctx context.Context, n *node, within bool) (*delta, error) {
	switch n.how {
	case single:
		return c.leaf(ctx, n, within)
	case union:
		d := &delta{}
		for i, part := range n.parts {
			of, err := c.delta(ctx, part, true)
			if err != nil {
				return nil, err
			}
			for _, e := range of.is {
				d.add(element{name: unionName(i, e.name), given: e.given}, of.fresh[e.name])
			}
			for _, name := range of.gone {
				d.gone = append(d.gone, unionName(i, name))
			}
		}
		return d, nil
	case cross:
		return c.cross(ctx, n)
	default:
		return c.matched(ctx, n)
	}
}

func (c *comparison) leaf(ctx context.Context, n *node, within bool) (*delta, error) {
	all, err := difference(ctx, c.old, c.now, n.source)
	if err != nil {
		return nil, err
	}
	d := &delta{}
	for _, t := range all {
		name := n.source.leafName(t.path, within)
		if t.is == nil {
			d.gone = append(d.gone, name)
			continue
		}
		d.add(element{name: name, given: []Given{t.is.Given}}, !t.was)
	}
	return d, nil
}

// side is one part of a cross: all elements that there are now, which of them
// differ, and those that are gone.
type side struct {
	*delta
	same, all []element // same: those that do not differ
	before    []element // all that there were, with names alone
}

// cross changes the products of what changed.
func (c *comparison) cross(ctx context.Context, n *node) (*delta, error) {
	sides := make([]side, len(n.parts))
	any := false
	for i, part := range n.parts {
		of, err := c.delta(ctx, part, true)
		if err != nil {
			return nil, err
		}
		sides[i].delta = of
		any = any || !of.empty()
	}
	d := &delta{}
	if !any {
		return d, nil
	}
	for i, part := range n.parts {
		all, err := c.now.elements(ctx, part, true)
		if err != nil {
			return nil, err
		}
		sides[i].split(all)
	}
	for i := range sides {
		parts := make([][]element, len(sides))
		lost := make([][]element, len(sides))
		for k := range sides {
			switch {
			case k < i:
				parts[k], lost[k] = sides[k].same, sides[k].kept()
			case k == i:
				parts[k], lost[k] = sides[k].is, sides[k].lost()
			default:
				parts[k], lost[k] = sides[k].all, sides[k].before
			}
		}
		d.crossed(sides, parts)
		for _, e := range product(lost) {
			d.gone = append(d.gone, e.name)
		}
	}
	return d, nil
}

// crossed adds products, which are new where a part of them is.
func (d *delta) crossed(sides []side, parts [][]element) {
	fresh := map[string]bool{}
	for i := range sides {
		maps.Copy(fresh, sides[i].fresh)
	}
	walk(parts, func(chosen []element) {
		is := slices.ContainsFunc(chosen, func(e element) bool { return fresh[e.name] })
		d.add(combine(chosen), is)
	})
}

// walk shows every combination of one element of each part.
func walk(parts [][]element, see func([]element)) {
	chosen := make([]element, len(parts))
	var choose func(i int)
	choose = func(i int) {
		if i == len(parts) {
			see(chosen)
			return
		}
		for _, e := range parts[i] {
			chosen[i] = e
			choose(i + 1)
		}
	}
	choose(0)
}

// split tells what there is now by whether it differs, and what there was.
func (s *side) split(all []element) {
	s.all = all
	differs := map[string]bool{}
	for _, e := range s.is {
		differs[e.name] = true
	}
	for _, e := range all {
		if !differs[e.name] {
			s.same = append(s.same, e)
		}
		if !s.fresh[e.name] {
			s.before = append(s.before, element{name: e.name})
		}
	}
	s.before = append(s.before, s.lost()...)
}

// lost are those that are gone, kept those of before that are not.
func (s *side) lost() []element {
	lost := make([]element, len(s.gone))
	for i, name := range s.gone {
		lost[i].name = name
	}
	return lost
}

func (s *side) kept() []element { return s.before[:len(s.before)-len(s.gone)] }

// matched changes the products of a join, or the groups, of those values alone
// that something which differs has.
func (c *comparison) matched(ctx context.Context, n *node) (*delta, error) {
	values, differs, fresh := map[string]bool{}, map[string]bool{}, map[string]bool{}
	gone := map[string][][]found{}
	for i, part := range n.parts {
		s := part.source
		all, err := difference(ctx, c.old, c.now, s)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			value, name := s.common().Expand(t.values), s.leafName(t.path, true)
			values[value] = true
			if t.is == nil {
				if gone[value] == nil {
					gone[value] = make([][]found, len(n.parts))
				}
				gone[value][i] = append(gone[value][i], found{Given: Given{Source: s.Index, Input: s.Name, Path: t.path}})
				continue
			}
			differs[name] = true
			if !t.was {
				fresh[name] = true
			}
		}
	}
	d := &delta{}
	if len(values) == 0 {
		return d, nil
	}
	by, err := c.now.byValue(ctx, n, values)
	if err != nil {
		return nil, err
	}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		has := by[value]
		if has == nil {
			has = make(shared, len(n.parts))
		}
		d.value(n, value, has, n.earlier(has, gone[value], fresh), differs)
	}
	return d, nil
}

// earlier is what there was of a value, as far as names go.
func (n *node) earlier(now, gone shared, fresh map[string]bool) shared {
	was := make(shared, len(now))
	for i := range now {
		for _, f := range now[i] {
			if !fresh[n.parts[i].source.leafName(f.Path, true)] {
				was[i] = append(was[i], f)
			}
		}
		if gone != nil {
			was[i] = append(was[i], gone[i]...)
		}
	}
	return was
}

// value adds what differs in the elements of one value.
func (d *delta) value(n *node, value string, now, before shared, differs map[string]bool) {
	was := map[string]bool{}
	for _, e := range n.matched(value, before) {
		was[e.name] = true
	}
	for _, e := range n.matched(value, now) {
		known := was[e.name]
		delete(was, e.name)
		if n.how == group || !known || slices.ContainsFunc(e.given, func(g Given) bool {
			return differs[sourceOf(n, g).leafName(g.Path, true)]
		}) {
			d.add(e, !known)
		}
	}
	d.gone = append(d.gone, slices.Sorted(maps.Keys(was))...)
}

func sourceOf(n *node, g Given) *Source {
	for _, part := range n.parts {
		if part.source.Index == g.Source {
			return part.source
		}
	}
	return nil
}
