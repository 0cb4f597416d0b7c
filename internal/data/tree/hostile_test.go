package tree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/pack"
)

// stored saves a node as whoever likes may store one, and returns the ref that claims what it has.
func stored(t *testing.T, h *heap, n *Node) Ref {
	t.Helper()
	id, blob := new(writer).write(n)
	at, err := h.Save(t.Context(), pack.Node, id, len(blob), blob)
	if err != nil {
		t.Fatal(err)
	}
	r := n.ref(id)
	r.Place = at
	return r
}

func leaf(paths ...string) *Node {
	n := &Node{}
	for _, p := range paths {
		n.Entries = append(n.Entries, Entry{Path: p, Kind: Link, Target: "t", Size: 1})
	}
	return n
}

func (r Ref) root() Root { return Root{ID: r.ID, Place: r.Place, Files: r.Files, Bytes: r.Bytes} }

// shown counts the entries that each way through a tree shows before it refuses to go on.
func shown(t *testing.T, h *heap, root Root) (map[string]int, map[string]error) {
	t.Helper()
	counts, errs := map[string]int{}, map[string]error{}
	trees := New(h, nil)
	for _, err := range trees.From(t.Context(), root, "") {
		if err != nil {
			errs["From"] = err
			break
		}
		counts["From"]++
	}
	for _, err := range trees.Ahead(t.Context(), root, "", 4) {
		if err != nil {
			errs["Ahead"] = err
			break
		}
		counts["Ahead"]++
	}
	for _, err := range trees.Diff(t.Context(), Root{}, root) {
		if err != nil {
			errs["Diff"] = err
			break
		}
		counts["Diff"]++
	}
	return counts, errs
}

// TestHostileNodes: trees that no session makes are refused by whoever goes through them.
func TestHostileNodes(t *testing.T) {
	for name, c := range map[string]struct {
		make func(h *heap) Root
		// anyway is true where comparing two trees does not find it, which writes nothing.
		anyway bool
	}{
		"more files than the root claims": {make: func(h *heap) Root {
			r := stored(t, h, leaf("a", "b")).root()
			r.Files = 1
			return r
		}},
		"more bytes than the root claims": {make: func(h *heap) Root {
			r := stored(t, h, leaf("a", "b")).root()
			r.Bytes = 1
			return r
		}},
		"more files than a ref claims": {make: func(h *heap) Root {
			r := stored(t, h, leaf("a", "b"))
			r.Files = 1
			return stored(t, h, &Node{Level: 1, Refs: []Ref{r}}).root()
		}},
		"a sum that overflows": {make: func(h *heap) Root {
			a, b := stored(t, h, leaf("a")), stored(t, h, leaf("b"))
			a.Bytes, b.Bytes = 1<<62, 1<<62
			r := Root{Files: 2, Bytes: -1 << 63}
			n := stored(t, h, &Node{Level: 1, Refs: []Ref{a, b}})
			r.ID, r.Place = n.ID, n.Place
			return r
		}},
		"a node that begins before its place": {make: func(h *heap) Root {
			a, b := stored(t, h, leaf("a", "c")), stored(t, h, leaf("b", "d"))
			return stored(t, h, &Node{Level: 1, Refs: []Ref{a, b}}).root()
		}},
		"the same below the first ref of a second node": {make: func(h *heap) Root {
			a, b := stored(t, h, leaf("a", "c")), stored(t, h, leaf("b", "d"))
			return stored(t, h, &Node{Level: 2, Refs: []Ref{stored(t, h, &Node{Level: 1, Refs: []Ref{a}}), stored(t, h, &Node{Level: 1, Refs: []Ref{b}})}}).root()
		}},
		"an entry below a link": {anyway: true, make: func(h *heap) Root { return stored(t, h, leaf("d", "d-x", "d/x")).root() }},
		"far below": {anyway: true, make: func(h *heap) Root {
			return stored(t, h, &Node{Level: 1, Refs: []Ref{stored(t, h, leaf("a/b", "a/b-1")), stored(t, h, leaf("a/b-2/c", "a/b/c/d"))}}).root()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeap()
			_, errs := shown(t, h, c.make(h))
			for _, way := range []string{"From", "Ahead", "Diff"} {
				if way == "Diff" && c.anyway {
					continue
				}
				if !errors.Is(errs[way], pack.ErrDamaged) {
					t.Errorf("%s: %v", way, errs[way])
				}
			}
		})
	}
}

// TestAFewNodesDoNotUnfold: nodes that are used many times would show entries without end.
func TestAFewNodesDoNotUnfold(t *testing.T) {
	const levels, nodes = 8, 16
	h := newHeap()
	var below []Ref
	for i := range nodes {
		r := stored(t, h, leaf(fmt.Sprintf("f%03d", i)))
		r.Files, r.Bytes = 1, 1
		below = append(below, r)
	}
	for level := 1; level <= levels; level++ {
		var here []Ref
		for i := range nodes {
			r := stored(t, h, &Node{Level: level, Refs: below[:i+1]})
			r.Files, r.Bytes = 1, 1 // which is not true
			here = append(here, r)
		}
		below = here
	}
	root := below[nodes-1].root()
	counts, errs := shown(t, h, root)
	for way, err := range errs {
		if !errors.Is(err, pack.ErrDamaged) || counts[way] > 0 {
			t.Errorf("%s shows %d entries: %v", way, counts[way], err)
		}
	}
	if len(errs) != 3 {
		t.Errorf("a tree that claims one entry shows %v", counts)
	}
}

// TestHonestSharing: what a truthful sum claims is refused too, if a path comes twice.
func TestHonestSharing(t *testing.T) {
	h := newHeap()
	one := stored(t, h, leaf("a"))
	two := one
	two.Last = "b"
	counts, errs := shown(t, h, stored(t, h, &Node{Level: 1, Refs: []Ref{one, two}}).root())
	for way, err := range errs {
		if err == nil || counts[way] > 1 {
			t.Errorf("%s shows %d entries: %v", way, counts[way], err)
		}
	}
	if len(errs) != 3 {
		t.Errorf("one node under two names shows %v", counts)
	}
}

// TestACachedNodeHasItsName: a node is not given out by its place alone.
func TestACachedNodeHasItsName(t *testing.T) {
	h := newHeap()
	mine, other := stored(t, h, leaf("a")), stored(t, h, leaf("b"))
	trees := New(h, &Cache{})
	if _, err := trees.Top(t.Context(), mine.root()); err != nil {
		t.Fatal(err)
	}
	wrong := mine.root()
	wrong.ID = other.ID
	if n, err := trees.Top(t.Context(), wrong); err == nil {
		t.Errorf("a node was read under the name of another: %+v", n)
	}
}

func TestLinks(t *testing.T) {
	for name, c := range map[string]struct {
		links Links
		want  string // what the error says; empty: none
	}{
		"none":                        {links: nil},
		"beside and up":               {links: Links{"a/b/l": "../c", "m": "a/b"}},
		"up and out":                  {links: Links{"a/l": "../../x"}, want: "out of the tree"},
		"absolute":                    {links: Links{"l": "/etc"}, want: "out of the tree"},
		"empty":                       {links: Links{"l": ""}, want: "no path"},
		"down and up through folders": {links: Links{"l": "a/b/../../c"}},
		"over a link that is higher":  {links: Links{"a/b/c/up": "../../..", "z": "a/b/c/up/../../../outside"}, want: "over another link"},
		"one folder above the top":    {links: Links{"a/up": "..", "z": "a/up/.."}, want: "over another link"},
		"to the top":                  {links: Links{"a/b/up": "..", "z": "a/b/up/.."}},
		"over two links":              {links: Links{"a/b/up": "../..", "s": "a/b", "z": "s/up/../x"}, want: "over another link"},
		"over a link to a link":       {links: Links{"a/b/up": "../..", "s": "a/b/up", "z": "s/../x"}, want: "over another link"},
		"a loop":                      {links: Links{"a": "b/../c", "b": "a"}},
		"a loop with itself":          {links: Links{"a": "a/../a"}},
		"slashes and dots":            {links: Links{"a/up": "./..//.", "z": "a//up/./.."}, want: "over another link"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.links.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestManyLinksTakeLittle: following links costs a bounded time.
func TestManyLinksTakeLittle(t *testing.T) {
	deep := strings.Repeat("a/", 1000)
	links := Links{"a": "a0"}
	for i := range 40 {
		links[fmt.Sprintf("a%d", i)] = fmt.Sprintf("a%d", i+1)
	}
	for i := range 20_000 {
		links[fmt.Sprintf("l%d", i)] = deep + ".."
	}
	if err := links.Check(); err != nil {
		t.Errorf("links that lead nowhere: %v", err)
	}
	for i := range 20_000 {
		links[fmt.Sprintf("m%d", i)] = strings.Repeat("b/", 1000) + ".."
	}
	if err := links.Check(); err == nil || !strings.Contains(err.Error(), "too many links") {
		t.Errorf("%v", err)
	}
}
