package data

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestDamageIsNamed: whatever byte of whatever object flips, or wherever it is cut
// off, reading names the object or gives what was put; it never gives anything
// else.
func TestDamageIsNamed(t *testing.T) {
	p := newPlace(t)
	want := map[string]string{"a": "some text", "b/c": strings.Repeat("more of it ", 50), "l": noise(8, 1000)}
	put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, want))), AddOptions{})
	put(t, p.Dataset, "main", Stream("b/d", strings.NewReader("second")), AddOptions{})
	want["b/d"] = "second"
	var keys []string
	for _, prefix := range []string{pack.Prefix, commit.Prefix} {
		must(t, p.bytes.List(t.Context(), prefix, func(i backend.Info) error { keys = append(keys, i.Key); return nil }))
	}
	for _, key := range keys {
		content, err := backend.Read(t.Context(), p.bytes, key)
		must(t, err)
		hit := false
		for i := 0; i < len(content); i += 3 {
			flipped := slices.Clone(content)
			flipped[i] ^= 1 << (i % 8)
			for _, bad := range [][]byte{flipped, content[:i]} {
				must(t, p.bytes.Put(t.Context(), key, bad))
				hit = damageIsNamed(t, p, key, want) || hit
			}
		}
		must(t, p.bytes.Delete(t.Context(), key))
		damageIsNamed(t, p, key, want)
		must(t, p.bytes.Put(t.Context(), key, content))
		if !hit {
			t.Errorf("no damage to %s was ever noticed", key)
		}
	}
	same(t, "restored", want, held(t, p.Dataset, "main"))
}

func damageIsNamed(t *testing.T, p *place, key string, want map[string]string) bool {
	t.Helper()
	d := p.open(t, p.bytes, p.heads)
	got, err := readAll(t.Context(), d)
	var corrupt *CorruptError
	switch {
	case err == nil:
		same(t, "with "+key+" damaged", want, got)
	case !errors.As(err, &corrupt) || corrupt.Object != key || errors.Is(err, fs.ErrNotExist):
		t.Fatalf("%s is damaged: %v", key, err)
	}
	report, verr := d.store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{p.heads}, Bytes: true})
	if verr != nil || err != nil && len(report.Problems) == 0 || slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Object != key }) {
		t.Fatalf("%s is damaged: %+v %v", key, report, verr)
	}
	return len(report.Problems) > 0
}

// readAll reads everything of main, or says why not.
func readAll(ctx context.Context, d *Dataset) (map[string]string, error) {
	got := map[string]string{}
	v, err := d.At(ctx, "main")
	if err != nil {
		return nil, err
	}
	err = v.Walk(ctx, "", func(e Entry) error {
		f, err := v.Open(ctx, e.Path)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(f)
		got[e.Path] = string(content)
		return err
	})
	return got, err
}
