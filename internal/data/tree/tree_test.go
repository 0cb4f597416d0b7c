package tree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// heap keeps blobs by place, and counts how often it is asked.
type heap struct {
	name  pack.Name
	blobs [][]byte
	loads int
}

func (h *heap) Compress(raw []byte) []byte { return raw }

func (h *heap) Save(_ context.Context, _ pack.Kind, _ digest.ID, raw int, stored []byte) (pack.Place, error) {
	h.blobs = append(h.blobs, slices.Clone(stored))
	return pack.Place{Pack: h.name, Offset: uint32(len(h.blobs)), Stored: uint32(len(stored)), Raw: uint32(raw)}, nil
}

func (h *heap) Load(_ context.Context, _ pack.Kind, id digest.ID, at pack.Place) ([]byte, error) {
	h.loads++
	if at.Offset == 0 || int(at.Offset) > len(h.blobs) {
		return nil, fmt.Errorf("nothing at %s", at)
	}
	raw := h.blobs[at.Offset-1]
	return raw, pack.Check(id, pack.Node, raw)
}

func newHeap() *heap { return &heap{name: pack.Name{1}} }

func file(path, content string) Entry {
	e := Entry{Path: path, Kind: File, Size: int64(len(content))}
	if content != "" {
		e.Content = digest.Of([]byte(content))
		e.Place = pack.Place{Pack: pack.Name{9}, Offset: 8, Stored: uint32(len(content)), Raw: uint32(len(content))}
	}
	return e
}

// edits sets each path to its content, in order; "-" removes.
func edits(m map[string]string) []Edit {
	var all []Edit
	for path, content := range m {
		if content == "-" {
			all = append(all, Edit{Path: path})
			continue
		}
		e := file(path, content)
		all = append(all, Edit{Path: path, Entry: &e})
	}
	slices.SortFunc(all, func(a, b Edit) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func apply(t *testing.T, h *heap, tr *Tree, root Root, m map[string]string) Root {
	t.Helper()
	next, err := tr.Apply(t.Context(), h, root, edits(m))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func contents(t *testing.T, tr *Tree, root Root) map[string]digest.ID {
	t.Helper()
	got, last := map[string]digest.ID{}, ""
	for e, err := range tr.From(t.Context(), root, "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Path <= last {
			t.Fatalf("%q after %q", e.Path, last)
		}
		last = e.Path
		got[e.Path] = e.Content
	}
	return got
}

// TestShapeDependsOnContentAlone: whatever the order of changes, the tree is the
// one that is built at once, and holds what a map holds.
func TestShapeDependsOnContentAlone(t *testing.T) {
	for _, size := range []int{1, 40, 700, 8_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(size)))
			h := newHeap()
			tr := New(h, nil)
			model, root := map[string]string{}, Root{}
			for round := range 12 {
				batch := map[string]string{}
				for range 1 + r.IntN(size) {
					path := fmt.Sprintf("f/%05d", r.IntN(size))
					switch {
					case r.IntN(3) == 0:
						batch[path] = "-"
						delete(model, path)
					default:
						batch[path] = fmt.Sprint(round, r.IntN(3))
						model[path] = batch[path]
					}
				}
				root = apply(t, h, tr, root, batch)
				fresh := apply(t, h, tr, Root{}, model)
				if root.ID != fresh.ID || root.Files != fresh.Files || root.Bytes != fresh.Bytes {
					t.Fatalf("round %d: changed to %s, built %s", round, root.ID.Short(), fresh.ID.Short())
				}
				want := map[string]digest.ID{}
				for path, content := range model {
					want[path] = digest.Of([]byte(content))
				}
				if d := cmp.Diff(want, contents(t, tr, root)); d != "" {
					t.Fatal(d)
				}
			}
			gone := map[string]string{}
			for path := range model {
				gone[path] = "-"
			}
			if end := apply(t, h, tr, root, gone); end != (Root{}) {
				t.Errorf("without files: %+v", end)
			}
		})
	}
}

// TestOneAfterTheOther: a tree that grows at its end, path by path, as data does
// that is named after the time, is at each length the tree that is built at once;
// also where its topmost node has just been filled.
func TestOneAfterTheOther(t *testing.T) {
	for name, path := range map[string]string{"short paths": "%06d", "nodes full of bytes": strings.Repeat("long/", 600) + "%06d"} {
		t.Run(name, func(t *testing.T) {
			h := newHeap()
			tr := New(h, nil)
			model, root := map[string]string{}, Root{}
			for i := range 1200 {
				at := fmt.Sprintf(path, i)
				model[at] = "x"
				root = apply(t, h, tr, root, map[string]string{at: "x"})
				if root.Files != int64(len(model)) {
					t.Fatalf("after %d paths there are %d", len(model), root.Files)
				}
				if i%50 == 0 {
					if at := apply(t, h, tr, Root{}, model); at.ID != root.ID {
						t.Fatalf("%d paths are another tree than at once", len(model))
					}
				}
			}
			if got := contents(t, tr, root); len(got) != len(model) {
				t.Errorf("%d of %d paths", len(got), len(model))
			}
			for i := range 1200 {
				root = apply(t, h, tr, root, map[string]string{fmt.Sprintf(path, 1199-i): "-"})
				if root.Files != int64(1199-i) {
					t.Fatalf("%d paths instead of %d", root.Files, 1199-i)
				}
			}
		})
	}
}

func thousands(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("folder-%02d/file-%06d", i%40, i)] = fmt.Sprint(i)
	}
	return m
}

// TestDiffCostsTheChange: of many files one differs, and a few nodes are read.
func TestDiffCostsTheChange(t *testing.T) {
	h := newHeap()
	tr := New(h, nil)
	from := apply(t, h, tr, Root{}, thousands(100_000))
	blobs := len(h.blobs)
	to := apply(t, h, tr, from, map[string]string{"folder-07/file-000007": "other", "folder-07/new": "n", "folder-39/file-099999": "-"})
	if made := len(h.blobs) - blobs; made > 8 {
		t.Errorf("three edits made %d nodes", made)
	}
	h.loads = 0
	var got []string
	for c, err := range tr.Diff(t.Context(), from, to) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(c.Path, c.From != nil, c.To != nil))
	}
	want := []string{"folder-07/file-000007 true true", "folder-07/new false true", "folder-39/file-099999 true false"}
	for i := range want {
		want[i] = strings.Replace(want[i], " ", "", 1)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if h.loads > 24 {
		t.Errorf("%d nodes were read", h.loads)
	}
}

// TestDiffIsWhatMapsSay compares random trees with what comparing maps says.
func TestDiffIsWhatMapsSay(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 60 {
		h := newHeap()
		tr := New(h, &Cache{})
		size := 1 + r.IntN(3000)
		a, b := map[string]string{}, map[string]string{}
		for i := range size {
			path := fmt.Sprintf("%04d", i)
			switch r.IntN(40) {
			case 0:
				a[path] = "a"
			case 1:
				b[path] = "b"
			case 2:
				a[path], b[path] = "a", "b"
			default:
				a[path], b[path] = "same", "same"
			}
		}
		from, to := apply(t, h, tr, Root{}, a), apply(t, h, tr, Root{}, b)
		got := map[string]string{}
		for c, err := range tr.Diff(t.Context(), from, to) {
			if err != nil {
				t.Fatal(err)
			}
			got[c.Path] = fmt.Sprint(c.From != nil, c.To != nil)
		}
		want := map[string]string{}
		for i := range size {
			path := fmt.Sprintf("%04d", i)
			x, inA := a[path]
			y, inB := b[path]
			if x != y {
				want[path] = fmt.Sprint(inA, inB)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	}
}

func TestSumAndGet(t *testing.T) {
	h := newHeap()
	tr := New(h, nil)
	m := thousands(5000)
	root := apply(t, h, tr, Root{}, m)
	for _, c := range []struct{ from, to string }{{"", ""}, {"folder-03/", "folder-030"}, {"folder-39/file-004", "folder-39/file-0041"}, {"a", "b"}, {"folder-2", ""}, {"", "folder-1"}} {
		var files, bytes int64
		for path, content := range m {
			if path >= c.from && (c.to == "" || path < c.to) {
				files++
				bytes += int64(len(content))
			}
		}
		f, b, err := tr.Sum(t.Context(), root, c.from, c.to)
		if err != nil || f != files || b != bytes {
			t.Errorf("%q to %q: %d files, %d bytes (%v), want %d, %d", c.from, c.to, f, b, err, files, bytes)
		}
	}
	e, err := tr.Get(t.Context(), root, "folder-07/file-000007")
	if err != nil || e.Content != digest.Of([]byte("7")) {
		t.Errorf("%+v %v", e, err)
	}
	for _, path := range []string{"", "folder-07", "zzz", "folder-07/file-0000070"} {
		if _, err := tr.Get(t.Context(), root, path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestEntriesSurvive(t *testing.T) {
	h := newHeap()
	tr := New(h, nil)
	big := file("c", "content")
	big.List, big.Executable = true, true
	all := []Entry{file("a\n\xff", ""), {Path: "b", Kind: Link, Target: "a/../x", Size: 6}, big, file(strings.Repeat("d/", 2000)+"e", "x")}
	var es []Edit
	for i := range all {
		es = append(es, Edit{Path: all[i].Path, Entry: &all[i]})
	}
	root, err := tr.Apply(t.Context(), h, Root{}, es)
	if err != nil {
		t.Fatal(err)
	}
	var got []Entry
	for e, err := range tr.From(t.Context(), root, "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *e)
	}
	if d := cmp.Diff(all, got); d != "" {
		t.Error(d)
	}
}

// TestPlacesAreNoPartOfNames: the same content elsewhere is the same tree.
func TestPlacesAreNoPartOfNames(t *testing.T) {
	h := newHeap()
	tr := New(h, nil)
	e := file("a", "x")
	root, err := tr.Apply(t.Context(), h, Root{}, []Edit{{Path: "a", Entry: &e}})
	if err != nil {
		t.Fatal(err)
	}
	moved := e
	moved.Place.Pack = pack.Name{7}
	again, err := tr.Apply(t.Context(), h, Root{}, []Edit{{Path: "a", Entry: &moved}})
	if err != nil || again.ID != root.ID {
		t.Errorf("%s and %s (%v)", root.ID, again.ID, err)
	}
}

func TestBadPaths(t *testing.T) {
	for name, p := range map[string]string{
		"empty": "", "absolute": "/etc/passwd", "up": "a/../../b", "dot": "./a", "double": "a//b", "ends in a slash": "a/",
		"NUL": "a\x00b", "long": strings.Repeat("a/", 2048) + "b", "a long part": strings.Repeat("x", 256),
	} {
		if err := CheckPath(p); err == nil {
			t.Errorf("%s: taken", name)
		}
		e := file(p, "x")
		if _, err := New(newHeap(), nil).Apply(t.Context(), newHeap(), Root{}, []Edit{{Path: p, Entry: &e}}); err == nil {
			t.Errorf("%s: taken into a tree", name)
		}
	}
	for _, p := range []string{"a", "a/b", "...", "a/..b", " ", strings.Repeat("x", 255), strings.Repeat("a/", 2047) + "b"} {
		if err := CheckPath(p); err != nil {
			t.Error(err)
		}
	}
	for target, fine := range map[string]bool{"b": true, "../b": true, "../../b": false, "/b": false, "": false, "x/../../..": false, ".": true} {
		if err := CheckTarget("a/link", target); (err == nil) != fine {
			t.Errorf("a/link to %q: %v", target, err)
		}
	}
}

// TestFlippedBits: whatever bit of a node flips, reading says so.
func TestFlippedBits(t *testing.T) {
	h := newHeap()
	tr := New(h, nil)
	root := apply(t, h, tr, Root{}, map[string]string{"a": "x", "b/c": "y"})
	for i := range h.blobs[0] {
		h.blobs[0][i] ^= 1 << (i % 8)
		if _, err := tr.Get(t.Context(), root, "a"); !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		h.blobs[0][i] ^= 1 << (i % 8)
	}
}

// shrinking is a heap that stores what it is asked to compress without its last byte.
type shrinking struct{ *heap }

func (shrinking) Compress(raw []byte) []byte { return raw[:len(raw)-1] }

// Nodes are compressed where that is worth it: not those that are hashes and names of
// packs for the most part, as many small commits leave them.
func TestWhichNodesAreCompressed(t *testing.T) {
	for name, tt := range map[string]struct {
		entry func(i int) Entry
		want  bool
	}{
		"files of one pack": {func(i int) Entry {
			return Entry{Kind: File, Size: 4096, Content: digest.Of([]byte{byte(i)}), Place: pack.Place{Pack: pack.Name{1}, Offset: uint32(i) << 16, Stored: 4096, Raw: 4096}}
		}, true},
		"each in a pack of its own": {func(i int) Entry {
			return Entry{Kind: File, Size: 4096, Content: digest.Of([]byte{byte(i)}), Place: pack.Place{Pack: pack.Name{byte(i)}, Offset: uint32(i) << 16, Stored: 4096, Raw: 4096}}
		}, false},
		"empty files": {func(int) Entry { return Entry{Kind: File} }, true},
		"links":       {func(int) Entry { return Entry{Kind: Link, Size: 1, Target: "a"} }, true},
	} {
		var edits []Edit
		for i := range 30 {
			e := tt.entry(i)
			e.Path = fmt.Sprintf("folder/%03d.png", i)
			edits = append(edits, Edit{Path: e.Path, Entry: &e})
		}
		h := newHeap()
		root, err := New(h, &Cache{}).Apply(t.Context(), shrinking{h}, Root{}, edits)
		if err != nil {
			t.Fatal(err)
		}
		if got := root.Place.Stored < root.Place.Raw; got != tt.want {
			t.Errorf("%s: compressed: %t", name, got)
		}
	}
}

// FuzzDecode: no node, however it was made, does harm.
func FuzzDecode(f *testing.F) {
	n := Node{Entries: []Entry{file("a", "x"), {Path: "b", Kind: Link, Target: "a", Size: 1}}}
	id, blob := new(writer).write(&n)
	what, where, err := pack.Split(id, blob)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(what, where)
	f.Fuzz(func(_ *testing.T, what, where []byte) {
		id, blob := join(what, where)
		n, err := decode(id, blob)
		if err == nil {
			_, _ = new(writer).write(n)
		}
	})
}

// join is a blob as [pack.Join] makes it, whose places may be anything.
func join(what, where []byte) (digest.ID, []byte) {
	id := digest.Of(what)
	sum := digest.Of(slices.Concat(id[:], where))
	return id, slices.Concat(binary.AppendUvarint(nil, uint64(len(what))), what, where, sum[:16])
}
