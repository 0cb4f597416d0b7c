package pipeline

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/pipeline/glob"
)

// element is a datum that is being put together.
type element struct {
	name  string
	given []Given
}

// datum is a finished one.
func (e *element) datum() Datum {
	d := Datum{Name: fit(e.name), Given: slices.Clone(e.given)}
	slices.SortFunc(d.Given, func(a, b Given) int {
		return cmp.Or(cmp.Compare(a.Input, b.Input), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Source, b.Source))
	})
	d.identify()
	return d
}

// elements are all that an input has in one version of its sources.
func (r *reader) elements(ctx context.Context, n *node, within bool) ([]element, error) {
	switch n.how {
	case single:
		var all []element
		err := r.find(ctx, n.source, 0, "", func(f found) error {
			all = append(all, element{name: n.source.leafName(f.Path, within), given: []Given{f.Given}})
			return nil
		})
		return all, err
	case union:
		return r.united(ctx, n)
	case cross:
		parts, err := r.parts(ctx, n)
		if err != nil {
			return nil, err
		}
		return product(parts), nil
	default:
		by, err := r.byValue(ctx, n, nil)
		if err != nil {
			return nil, err
		}
		var all []element
		for _, value := range slices.Sorted(maps.Keys(by)) {
			all = append(all, n.matched(value, by[value])...)
		}
		return all, nil
	}
}

func (r *reader) parts(ctx context.Context, n *node) ([][]element, error) {
	parts := make([][]element, len(n.parts))
	for i, part := range n.parts {
		var err error
		if parts[i], err = r.elements(ctx, part, true); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func (r *reader) united(ctx context.Context, n *node) ([]element, error) {
	parts, err := r.parts(ctx, n)
	if err != nil {
		return nil, err
	}
	var all []element
	for i, part := range parts {
		for _, e := range part {
			all = append(all, element{name: unionName(i, e.name), given: e.given})
		}
	}
	return all, nil
}

// unionName is the name of a datum of one part of a union.
func unionName(part int, name string) string { return strconv.Itoa(part) + "/" + name }

// product is every combination of one element of each part.
func product(parts [][]element) []element {
	size := 1
	for _, part := range parts {
		size *= len(part)
	}
	if size == 0 || len(parts) == 0 {
		return nil
	}
	all := make([]element, 0, size)
	chosen := make([]element, len(parts))
	var choose func(i int)
	choose = func(i int) {
		if i == len(parts) {
			all = append(all, combine(chosen))
			return
		}
		for _, e := range parts[i] {
			chosen[i] = e
			choose(i + 1)
		}
	}
	choose(0)
	return all
}

// combine makes one element of several.
func combine(chosen []element) element {
	names := make([]string, len(chosen))
	var given []Given
	for i, e := range chosen {
		names[i] = e.name
		given = append(given, e.given...)
	}
	return element{name: strings.Join(names, "/"+markNext), given: given}
}

// shared is what a join or group has of one value: for each part what has it.
type shared [][]found

// byValue is what the parts of a join or group have, by value: of all values, or of
// those that are asked for.
func (r *reader) byValue(ctx context.Context, n *node, only map[string]bool) (map[string]shared, error) {
	by := map[string]shared{}
	for i, part := range n.parts {
		s := part.source
		common := s.common()
		see := func(f found) error {
			value := common.Expand(f.values)
			if only != nil && !only[value] {
				return nil
			}
			if by[value] == nil {
				by[value] = make(shared, len(n.parts))
			}
			by[value][i] = append(by[value][i], f)
			return nil
		}
		if err := r.pick(ctx, s, only, see); err != nil {
			return nil, err
		}
	}
	return by, nil
}

// common is what says what the source's datums have in common with others.
func (s *Source) common() *glob.Template {
	if s.joinOn != nil {
		return s.joinOn
	}
	return s.groupBy
}

// fewValues is up to how many values are looked for one by one.
const fewValues = 256

// pick shows what a source has that may have one of some values: nothing else
// is read where the values are where its paths begin.
func (r *reader) pick(ctx context.Context, s *Source, only map[string]bool, see func(found) error) error {
	group := s.common().Single()
	if only == nil || group == 0 || len(only) > fewValues || s.Glob.PrefixOf(group, "") == "" && s.Glob.PrefixOf(group, "x") == "" {
		return r.find(ctx, s, 0, "", see)
	}
	for _, value := range slices.Sorted(maps.Keys(only)) {
		if err := r.find(ctx, s, group, value, see); err != nil {
			return err
		}
	}
	return nil
}

// matched are the elements of a join or group of one value.
func (n *node) matched(value string, has shared) []element {
	if n.how == group {
		var all element
		for _, part := range has {
			for _, f := range part {
				f.GroupBy = value
				all.given = append(all.given, f.Given)
			}
		}
		if len(all.given) == 0 {
			return nil
		}
		all.name = valueName(value)
		return []element{all}
	}
	complete := !slices.ContainsFunc(has, func(part []found) bool { return len(part) == 0 })
	var parts [][]element
	for i, part := range has {
		s := n.parts[i].source
		if len(part) == 0 || !complete && !s.outer {
			continue
		}
		elements := make([]element, len(part))
		for k, f := range part {
			f.JoinOn = value
			elements[k] = element{name: s.leafName(f.Path, true), given: []Given{f.Given}}
		}
		parts = append(parts, elements)
	}
	return product(parts)
}
