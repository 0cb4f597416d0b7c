package tree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDiffBelow: what differs below a prefix is what differs, without the rest.
func TestDiffBelow(t *testing.T) {
	for _, size := range []int{3, 300, 5_000} {
		r := rand.New(rand.NewPCG(3, uint64(size)))
		h := newHeap()
		tr := New(h, nil)
		path := func() string { return fmt.Sprintf("%c/%c%04d", 'a'+r.IntN(5), 'a'+r.IntN(3), r.IntN(size)) }
		from := map[string]string{}
		for range size {
			from[path()] = fmt.Sprint(r.IntN(3))
		}
		a := apply(t, h, tr, Root{}, from)
		for round := range 30 {
			changes := map[string]string{}
			for range 1 + r.IntN(1+size/(1+round*round)) {
				changes[path()] = []string{"-", "x", "y"}[r.IntN(3)]
			}
			b := apply(t, h, tr, a, changes)
			if round%7 == 0 {
				b = Root{}
			}
			for _, prefix := range []string{"", "a", "a/", "b/", "c/b", "e/c", "zzz", "0", fmt.Sprintf("b/a%04d", size/2), path()} {
				var want, got []string
				for c, err := range tr.Diff(t.Context(), a, b) {
					if err != nil {
						t.Fatal(err)
					}
					if strings.HasPrefix(c.Path, prefix) {
						want = append(want, c.Path)
					}
				}
				for c, err := range tr.DiffBelow(t.Context(), a, b, prefix) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, c.Path)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%d files, round %d, below %q\n%s", size, round, prefix, d)
				}
			}
			if b != (Root{}) {
				a = b
			}
		}
	}
}

// TestDiffBelowCosts: what differs elsewhere costs nothing.
func TestDiffBelowCosts(t *testing.T) {
	h := newHeap()
	tr := New(h, nil)
	from := apply(t, h, tr, Root{}, thousands(40_000))
	changes := map[string]string{"folder-20/file-000020": "changed"}
	for i := range 10_000 {
		changes[fmt.Sprintf("folder-%02d/new-%06d", 21+i%19, i)] = "x"
		changes[fmt.Sprintf("a/new-%06d", i)] = "x"
	}
	to := apply(t, h, tr, from, changes)
	h.loads = 0
	found := 0
	for _, err := range tr.DiffBelow(t.Context(), from, to, "folder-20/") {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if found != 1 || h.loads > 24 {
		t.Errorf("%d found with %d reads", found, h.loads)
	}
}
