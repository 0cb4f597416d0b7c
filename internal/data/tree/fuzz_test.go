package tree

import (
	"testing"
)

// crafted makes nodes from bytes, as a tenant may store them, and returns a root: leaves with
// entries, and inner nodes with refs to earlier nodes and arbitrary claims.
func crafted(t *testing.T, h *heap, program []byte) (root Root, ok bool) {
	t.Helper()
	next := func() int {
		if len(program) == 0 {
			return 0
		}
		b := program[0]
		program = program[1:]
		return int(b)
	}
	var made []Ref
	for len(program) > 0 && len(made) < 32 {
		n := &Node{Level: next() % 4}
		for range next()%4 + 1 {
			if n.Level == 0 {
				path := string([]byte{'a' + byte(next()%4)})
				for range next() % 3 {
					path += string([]byte{"/ab-"[next()%4]}) + "x"
				}
				n.Entries = append(n.Entries, Entry{Path: path, Kind: Link, Target: "t", Size: 1})
				continue
			}
			if len(made) == 0 {
				return Root{}, false
			}
			r := made[next()%len(made)]
			switch next() % 8 {
			case 0:
				r.Files += int64(next()) - 128
			case 1:
				r.Bytes += int64(next()) << (next() % 57)
			case 2:
				r.Last += "z"
			}
			n.Refs = append(n.Refs, r)
		}
		made = append(made, stored(t, h, n))
	}
	if len(made) == 0 {
		return Root{}, false
	}
	return made[len(made)-1].root(), true
}

// FuzzWalk: with arbitrary claims, a walk shows at most as many entries as the root claims, each path
// once and in order. A walk without an error shows exactly as many.
func FuzzWalk(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 1, 0, 0, 1, 2, 0, 3, 0, 1, 1, 0, 9, 1, 9})
	f.Add([]byte{0, 0, 0, 0, 1, 3, 0, 9, 0, 9, 0, 9, 0, 9, 2, 3, 1, 9, 1, 9, 1, 9, 1, 9, 3, 3, 2, 9, 2, 9, 2, 9, 2, 9}) // the same leaf 64 times
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 200, 1, 0, 0, 1, 255, 56})
	f.Fuzz(func(t *testing.T, program []byte) {
		h := newHeap()
		root, ok := crafted(t, h, program)
		if !ok {
			return
		}
		for _, way := range []string{"From", "Ahead"} {
			var files, bytes int64
			before, whole := "", true
			entries := New(h, nil).From(t.Context(), root, "")
			if way == "Ahead" {
				entries = New(h, nil).Ahead(t.Context(), root, "", 4)
			}
			for e, err := range entries {
				if err != nil {
					whole = false
					break
				}
				if e.Path <= before {
					t.Fatalf("%s shows %q after %q", way, e.Path, before)
				}
				before = e.Path
				files++
				bytes += e.Size
				if files > root.Files || bytes > root.Bytes {
					t.Fatalf("%s shows %d files of %d bytes, and the root claims %d of %d", way, files, bytes, root.Files, root.Bytes)
				}
			}
			if whole && (files != root.Files || bytes != root.Bytes) {
				t.Fatalf("%s shows all %d files of %d bytes, and the root claims %d of %d", way, files, bytes, root.Files, root.Bytes)
			}
		}
	})
}
