package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/ref"
)

func TestWhatIsPutComesBack(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	files(t, src, sample())
	r := put(t, p.Dataset, "main", Folder(src), AddOptions{})
	same(t, "read", sample(), held(t, p.Dataset, "main"))
	again := p.open(t, p.bytes, p.heads)
	same(t, "read by another", sample(), held(t, again, r.Commit.ID.String()))
	v, err := again.At(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "new", "folder")
	got, err := v.Checkout(t.Context(), dst, CheckoutOptions{})
	if err != nil || got.Files != v.Commit().Tree.Files || got.Bytes != v.Commit().Tree.Bytes || got.Kept != 0 {
		t.Errorf("%+v of %+v: %v", got, v.Commit().Tree, err)
	}
	same(t, "checked out", sample(), folder(t, dst))
	report, err := again.store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{p.heads}, Bytes: true})
	if err != nil || len(report.Problems) > 0 || report.Commits != 1 || report.Files != v.Commit().Tree.Files {
		t.Errorf("%+v %v", report, err)
	}
	objects := 0
	if err := p.bytes.List(t.Context(), "packs/", func(backend.Info) error { objects++; return nil }); err != nil || objects > 2 {
		t.Errorf("%d packs for %d files (%v)", objects, got.Files, err)
	}
	if err := p.bytes.List(t.Context(), "leases/", func(i backend.Info) error { t.Error("left:", i.Key); return nil }); err != nil {
		t.Error(err)
	}
}

// TestSourcesAgree: the same files are the same tree, wherever they come from.
func TestSourcesAgree(t *testing.T) {
	m := sample()
	src := t.TempDir()
	files(t, src, m)
	p := newPlace(t)
	want := put(t, p.Dataset, "folder", Folder(src), AddOptions{}).Commit.Tree.ID
	if got := put(t, p.Dataset, "tar", Tar(bytes.NewReader(tarOf(t, m))), AddOptions{}).Commit.Tree.ID; got != want {
		t.Errorf("the tar is %s, the folder %s", got, want)
	}
	s, err := p.Begin(t.Context(), "single", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range m {
		if strings.ContainsAny(name, "*>") { // a stream is neither
			if err := s.Add(t.Context(), Tar(bytes.NewReader(tarOf(t, map[string]string{name: content}))), AddOptions{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := s.Add(t.Context(), Stream(name, strings.NewReader(content)), AddOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Commit(t.Context(), CommitOptions{})
	if err != nil || r.Commit.Tree.ID != want {
		t.Errorf("file by file it is %s, the folder %s (%v)", r.Commit.Tree.ID, want, err)
	}
}

// TestPutOver: what is put goes over what is there; with Replace what is not put
// goes, but only below the folder that is put to.
func TestPutOver(t *testing.T) {
	first := map[string]string{"keep": "k", "x/old": "o", "x/both": "1", "y": "y"}
	second := map[string]string{"both": "2", "new": "n"}
	for name, c := range map[string]struct {
		source  func(dir string) Source
		replace bool
		want    map[string]string
	}{
		"folder over":     {Folder, false, map[string]string{"keep": "k", "x/old": "o", "x/both": "2", "x/new": "n", "y": "y"}},
		"folder in place": {Folder, true, map[string]string{"keep": "k", "x/both": "2", "x/new": "n", "y": "y"}},
		"tar over":        {func(string) Source { return Tar(bytes.NewReader(tarOf(t, second))) }, false, map[string]string{"keep": "k", "x/old": "o", "x/both": "2", "x/new": "n", "y": "y"}},
		"tar in place":    {func(string) Source { return Tar(bytes.NewReader(tarOf(t, second))) }, true, map[string]string{"keep": "k", "x/both": "2", "x/new": "n", "y": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			a, b := t.TempDir(), t.TempDir()
			files(t, a, first)
			files(t, b, second)
			put(t, p.Dataset, "main", Folder(a), AddOptions{})
			put(t, p.Dataset, "main", c.source(b), AddOptions{To: "/x/", Replace: c.replace})
			same(t, "after", c.want, held(t, p.Dataset, "main"))
		})
	}
}

// TestTarWithTheSameContentInPlace: what is taken away first and comes again stays.
func TestTarWithTheSameContentInPlace(t *testing.T) {
	p := newPlace(t)
	m := map[string]string{"a": "1", "b": "2", "c/d": noise(4, 2<<20)}
	first := put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, m))), AddOptions{})
	r := put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, m))), AddOptions{Replace: true})
	if !r.Unchanged || r.Commit.ID != first.Commit.ID {
		t.Errorf("%+v", r)
	}
	other := tarOf(t, map[string]string{"a": "other"})[:1024] // without its end
	twice := io.MultiReader(bytes.NewReader(other), bytes.NewReader(tarOf(t, map[string]string{"a": "1"})))
	put(t, p.Dataset, "main", Tar(twice), AddOptions{})
	same(t, "twice in one tar", m, held(t, p.Dataset, "main"))
}

func TestRangesOfFiles(t *testing.T) {
	p := newPlace(t)
	content := noise(7, 7<<20)
	put(t, p.Dataset, "main", Stream("f", strings.NewReader(content)), AddOptions{})
	v, err := p.At(t.Context(), "main")
	must(t, err)
	f, err := v.Open(t.Context(), "f")
	must(t, err)
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		at := r.IntN(len(content) + 100)
		n := r.IntN(3 << 20)
		got := make([]byte, n)
		k, err := f.ReadAt(got, int64(at))
		want := ""
		if at < len(content) {
			want = content[at:min(at+n, len(content))]
		}
		if string(got[:k]) != want || (err == nil) != (len(want) == n) {
			t.Fatalf("%d at %d: %d bytes, %v", n, at, k, err)
		}
	}
	if _, err := f.Seek(-5, io.SeekEnd); err != nil {
		t.Error(err)
	}
	if tail, err := io.ReadAll(f); err != nil || string(tail) != content[len(content)-5:] {
		t.Errorf("%d bytes %v", len(tail), err)
	}
	must(t, f.Close())
	if _, err := v.Open(t.Context(), "g"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDiffOfCommits costs a few reads, also of a process that knows nothing yet.
func TestDiffOfCommits(t *testing.T) {
	p := newPlace(t)
	m := map[string]string{}
	for i := range 20_000 {
		m[fmt.Sprintf("d%02d/f%05d", i%20, i)] = fmt.Sprint(i)
	}
	put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, m))), AddOptions{})
	// By another process, which keeps no more than a node in its memory.
	other := p.open(t, p.bytes, p.heads)
	other.store.nodes.Most = 1
	put(t, other, "main", Stream("d07/f00007", strings.NewReader("other")), AddOptions{})
	b := &faulty.Backend{Inner: p.bytes, Script: &faulty.Script{}}
	d := p.open(t, b, p.heads)
	from, err := d.At(t.Context(), "main~1")
	must(t, err)
	to, err := d.At(t.Context(), "main")
	must(t, err)
	var got []string
	must(t, Diff(t.Context(), from, to, func(c Change) error { got = append(got, c.Path); return nil }))
	if d := cmp.Diff([]string{"d07/f00007"}, got); d != "" {
		t.Error(d)
	}
	if b.Reads() > 20 {
		t.Errorf("%d reads", b.Reads())
	}
	var all int
	must(t, Diff(t.Context(), nil, to, func(Change) error { all++; return nil }))
	if all != len(m) {
		t.Errorf("from nothing: %d changes", all)
	}
}
