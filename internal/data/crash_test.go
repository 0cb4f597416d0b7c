package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
)

// faultyHeads are heads whose user dies by the same script as the backend's.
type faultyHeads struct {
	ref.Heads
	script *faulty.Script
}

func (h *faultyHeads) Swap(ctx context.Context, moves ...ref.Move) error {
	return h.script.Write("swap "+moves[0].Name.String(), func() error { return h.Heads.Swap(ctx, moves...) })
}

// every does something with every write failing in every way, each time in a place
// that was made anew, and looks at what is left.
func every(t *testing.T, make func(t *testing.T) *place, do func(ctx context.Context, d *Dataset) error, look func(t *testing.T, p *place, err error)) {
	t.Helper()
	for _, fault := range faulty.Faults() {
		for at := 1; ; at++ {
			p := make(t)
			script := &faulty.Script{At: at, Fault: fault}
			d := p.open(t, &faulty.Backend{Inner: p.bytes, Script: script}, &faultyHeads{Heads: p.heads, script: script})
			err := do(t.Context(), d)
			if script.Writes() < at {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				if at < 4 {
					t.Fatalf("%d writes: nothing was tried", at-1)
				}
				break
			}
			look(t, p, err)
			if t.Failed() {
				t.Fatalf("after write %d, %s (%v)", at, fault, err)
			}
		}
	}
}

// expired makes the dead's leases old, without waiting.
func expired(t *testing.T, p *place) {
	t.Helper()
	var keys []string
	must(t, p.bytes.List(t.Context(), leasePrefix, func(i backend.Info) error { keys = append(keys, i.Key); return nil }))
	for _, key := range keys {
		must(t, p.bytes.Put(t.Context(), key, []byte(`{"ttl":1}`)))
	}
}

// sound says that everything that heads lead to is whole, before and after a
// collection, and that collections leave nothing that is not needed: what lies in a bale
// with others goes once these have one of their own.
func sound(t *testing.T, p *place) {
	t.Helper()
	d := p.open(t, p.bytes, p.heads)
	expired(t, p)
	intact(t, d, p)
	for range 4 {
		if _, err := d.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}}); err != nil {
			t.Errorf("collecting: %v", err)
			return
		}
		intact(t, d, p)
	}
	again, err := d.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}, DryRun: true})
	if err != nil || again.Packs+again.Commits+again.Waiting > 0 {
		t.Errorf("there is still something to be collected: %+v %v", again, err)
	}
	condemned, err := d.store.condemned(t.Context())
	must(t, err)
	for key := range condemned {
		if bale.In(d.store.backend, key) == "" {
			t.Errorf("condemned, and in no bale: %s", key)
		}
	}
	must(t, p.bytes.List(t.Context(), leasePrefix, func(i backend.Info) error { t.Errorf("left: %s", i.Key); return nil }))
}

func intact(t *testing.T, d *Dataset, p *place) {
	t.Helper()
	report, err := d.store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{p.heads}, Bytes: true})
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v %v", report, err)
	}
}

// TestDyingWhilePutting: before the first commit, or on top of one. What was
// acknowledged is there; what was not is there as a whole or not at all.
func TestDyingWhilePutting(t *testing.T) {
	content := map[string]string{"a": "new", "b/c": noise(1, 3000), "long": noise(2, 2<<20)}
	src := t.TempDir()
	files(t, src, content)
	for name, before := range map[string]map[string]string{"first": nil, "second": {"a": "old", "z": "z"}} {
		t.Run(name, func(t *testing.T) {
			after := map[string]string{}
			for _, m := range []map[string]string{before, content} {
				for k, v := range m {
					after[k] = v
				}
			}
			every(t, func(t *testing.T) *place {
				p := newPlace(t)
				for path, text := range before {
					put(t, p.Dataset, "main", Stream(path, strings.NewReader(text)), AddOptions{})
				}
				return p
			}, func(ctx context.Context, d *Dataset) error {
				_, err := d.Put(ctx, "main", Folder(src), PutOptions{})
				return err
			}, func(t *testing.T, p *place, err error) {
				d := p.open(t, p.bytes, p.heads)
				got, failed := readAll(t.Context(), d)
				switch {
				case errors.Is(failed, fs.ErrNotExist) && before == nil && err != nil:
				case failed != nil:
					t.Error(failed)
				case len(got) == len(after):
					same(t, "after", after, got)
				case err != nil && len(got) == len(before):
					same(t, "before", before, got)
				default:
					t.Errorf("a part of it: %d files", len(got))
				}
				sound(t, p)
				// Whoever comes next finds everything in order.
				put(t, d, "main", Folder(src), AddOptions{})
				same(t, "put again", after, held(t, d, "main"))
			})
		})
	}
}

// TestDyingWhileCollecting: nothing that is needed goes, and the next collection
// finishes.
func TestDyingWhileCollecting(t *testing.T) {
	every(t, func(t *testing.T) *place {
		p := newPlace(t)
		for i := range 3 {
			put(t, p.Dataset, "old", Stream(fmt.Sprint("f", i), strings.NewReader(noise(uint64(i), 5000))), AddOptions{})
		}
		put(t, p.Dataset, "main", Stream("f", strings.NewReader(noise(9, 5000))), AddOptions{})
		must(t, p.Remove(t.Context(), ref.Name{Kind: ref.Branch, Name: "old"}))
		return p
	}, func(ctx context.Context, d *Dataset) error {
		r, err := d.store.Collect(ctx, CollectOptions{Heads: []ref.Heads{d.heads}})
		if err == nil && (r.Packs != 3 || r.Commits != 3 || r.Kept != 1 || r.Waiting != 0) {
			err = fmt.Errorf("%+v", r)
		}
		return err
	}, func(t *testing.T, p *place, _ error) {
		sound(t, p)
		same(t, "kept", map[string]string{"f": noise(9, 5000)}, held(t, p.open(t, p.bytes, p.heads), "main"))
	})
}

// TestDyingWhileMerging, and while branches come and go.
func TestDyingWhileMerging(t *testing.T) {
	every(t, func(t *testing.T) *place {
		p := newPlace(t)
		put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
		must(t, p.Create(t.Context(), ref.Name{Kind: ref.Branch, Name: "side"}, "main"))
		put(t, p.Dataset, "side", Stream("b", strings.NewReader("2")), AddOptions{})
		put(t, p.Dataset, "main", Stream("c", strings.NewReader("3")), AddOptions{})
		return p
	}, func(ctx context.Context, d *Dataset) error {
		_, err := d.Merge(ctx, MergeOptions{Into: "main", From: "side"})
		if err == nil {
			err = d.Create(ctx, ref.Name{Kind: ref.Tag, Name: "v1"}, "main")
		}
		if err == nil {
			err = d.Remove(ctx, ref.Name{Kind: ref.Branch, Name: "side"})
		}
		return err
	}, func(t *testing.T, p *place, err error) {
		sound(t, p)
		d := p.open(t, p.bytes, p.heads)
		got := held(t, d, "main")
		if _, merged := got["b"]; len(got) != 2 && !merged {
			t.Errorf("a part of it: %v (%v)", got, err)
		}
	})
}
