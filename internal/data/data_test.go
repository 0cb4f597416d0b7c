package data

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// place is a dataset in memory, with what it lies in.
type place struct {
	*Dataset
	bytes *backend.Memory
	heads *ref.Memory
	cache string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{bytes: &backend.Memory{}, heads: &ref.Memory{}, cache: t.TempDir()}
	p.Dataset = p.open(t, p.bytes, p.heads)
	return p
}

// open opens the store as another process would.
func (p *place) open(t *testing.T, b backend.Backend, heads ref.Heads) *Dataset {
	t.Helper()
	s, err := Open(t.Context(), Options{Backend: b, Cache: p.cache, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.slack = 0
	return s.Dataset(heads)
}

// files writes files below a folder; a name that ends in a star is executable, one
// with an arrow a link.
func files(t *testing.T, dir string, m map[string]string) {
	t.Helper()
	for name, content := range m {
		name, target, link := strings.Cut(name, " -> ")
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, "*") {
			name, mode = name[:len(name)-1], 0o755
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// folder reads what files writes.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			got[name+" -> "+target] = ""
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o100 != 0 {
			name += "*"
		}
		content, err := os.ReadFile(path)
		got[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// held is what a commit has, read file by file.
func held(t *testing.T, d *Dataset, reference string) map[string]string {
	t.Helper()
	got := map[string]string{}
	v, err := d.At(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	err = v.Walk(t.Context(), "", func(e Entry) error {
		if e.Kind == tree.Link {
			got[e.Path+" -> "+e.Target] = ""
			return nil
		}
		f, err := v.Open(t.Context(), e.Path)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(f)
		name := e.Path
		if e.Executable {
			name += "*"
		}
		got[name] = string(content)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func put(t *testing.T, d *Dataset, branch string, s Source, o AddOptions) PutResult {
	t.Helper()
	r, err := d.Put(t.Context(), branch, s, PutOptions{AddOptions: o, CommitOptions: CommitOptions{Author: "ada", Message: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for name := range want {
		if g, ok := got[name]; ok && g != want[name] && len(g) > 1000 {
			t.Errorf("%s: %s has %d bytes, and not the %d that it should have", what, name, len(g), len(want[name]))
			return
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); d != "" {
		t.Errorf("%s: %s", what, d)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func noise(seed uint64, n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return string(b)
}

// sample is a bit of everything.
func sample() map[string]string {
	m := map[string]string{
		"empty": "", "run.sh*": "#!/bin/sh\n", "a/b/c/d": "deep", "a/link -> b/c/d": "", "a.b": "between a and a/", "a-b": "x",
		"text": strings.Repeat("the same line again\n", 1000), "long": noise(1, 9<<20), "long text": strings.Repeat("0123456789abcde\n", 300_000),
		"edge": noise(2, small), "edge+1": noise(3, small+1),
	}
	for i := range 300 {
		m[fmt.Sprintf("many/%03d", i)] = fmt.Sprint("number ", i)
	}
	return m
}

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

func tarOf(t *testing.T, m map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, content := range m {
		h := &tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if name, target, link := strings.Cut(name, " -> "); link {
			h.Name, h.Linkname, h.Typeflag, h.Size = name, target, tar.TypeSymlink, 0
		} else if strings.HasSuffix(name, "*") {
			h.Name, h.Mode = name[:len(name)-1], 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
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

func TestUnchangedIsNotReadAgain(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	m := map[string]string{"a": "1", "b/c": "2", "long": noise(5, 2<<20)}
	files(t, src, m)
	long := time.Now().Add(-time.Hour)
	first := put(t, p.Dataset, "main", Folder(src), AddOptions{})
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{}); !r.Unchanged || r.Commit.ID != first.Commit.ID {
		t.Errorf("%+v", r)
	}
	// Edited, with its size and time kept: the change of its inode shows it.
	files(t, src, map[string]string{"a": "x"})
	if err := os.Chtimes(filepath.Join(src, "a"), long, long); err != nil {
		t.Fatal(err)
	}
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	m["a"] = "x"
	same(t, "edited", m, held(t, p.Dataset, "main"))
}

// TestNotesAreTrusted, and Checksum looks all the same: notes that are made to lie
// show which of the two was done.
func TestNotesAreTrusted(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	files(t, src, map[string]string{"a": "1", "b": "2"})
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	files(t, src, map[string]string{"a": "x"})
	lie(t, p, src)
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{}); !r.Unchanged {
		t.Error("the file was read although nothing told that it changed")
	}
	lie(t, p, src)
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{Checksum: true}); r.Unchanged {
		t.Error("the edit was not found although its content was to be looked at")
	}
	same(t, "looked at", map[string]string{"a": "x", "b": "2"}, held(t, p.Dataset, "main"))
}

// lie writes notes as if every file had been like this long ago, with the content
// that the dataset has.
func lie(t *testing.T, p *place, src string) {
	t.Helper()
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := s.writeNotes(src, "")
	n.buf = append(n.buf[:0], notesMagic...)
	n.buf = append(n.buf, 0, 0, 0, 0, 0, 0, 0, 0x7f) // taken in the far future
	n.out.Reset(io.MultiWriter(n.file, n.sum))
	n.write()
	for e, err := range s.trees.From(t.Context(), s.root, "") {
		if err != nil {
			t.Fatal(err)
		}
		it := item{entry: *e, file: filepath.Join(src, e.Path)}
		f, st, err := openFile(it.file)
		if err != nil {
			t.Fatal(err)
		}
		it.stamp = st
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		n.add(&it)
	}
	n.keep()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedNotesAreLeftOut(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	files(t, src, map[string]string{"a": "1"})
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	lie(t, p, src)
	files(t, src, map[string]string{"a": "x"})
	lie(t, p, src)
	all, err := filepath.Glob(filepath.Join(p.cache, "notes", "*"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	text, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(all[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{}); r.Unchanged {
		t.Error("damaged notes were trusted")
	}
}

func TestWhatCannotBePut(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string
	}{
		"a link out":      {func(t *testing.T, dir string) { files(t, dir, map[string]string{"x/l -> ../../etc": ""}) }, "x/l"},
		"a link to /":     {func(t *testing.T, dir string) { files(t, dir, map[string]string{"l -> /etc/passwd": ""}) }, "/etc/passwd"},
		"a pipe":          {func(t *testing.T, dir string) { must(t, syscall.Mkfifo(filepath.Join(dir, "p"), 0o600)) }, "a pipe"},
		"a socket":        {func(t *testing.T, dir string) { listen(t, filepath.Join(dir, "s")) }, "a socket"},
		"a file too long": {func(t *testing.T, dir string) { deep(t, dir) }, "at most 4095"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			src := t.TempDir()
			files(t, src, map[string]string{"a": "1"})
			c.make(t, src)
			_, err := p.Put(t.Context(), "main", Folder(src), PutOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if _, err := p.At(t.Context(), "main"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was committed: %v", err)
			}
		})
	}
	p := newPlace(t)
	for name, h := range map[string]tar.Header{
		"up": {Name: "../x", Typeflag: tar.TypeReg}, "root": {Name: "/etc/x", Typeflag: tar.TypeReg}, "hard": {Name: "x", Linkname: "y", Typeflag: tar.TypeLink},
		"device": {Name: "x", Typeflag: tar.TypeChar}, "link": {Name: "a/x", Linkname: "../../y", Typeflag: tar.TypeSymlink}, "part": {Name: strings.Repeat("x", 256), Typeflag: tar.TypeReg},
	} {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		must(t, errors.Join(w.WriteHeader(&h), w.Close()))
		if _, err := p.Put(t.Context(), "main", Tar(&buf), PutOptions{}); err == nil {
			t.Errorf("%s in a tar: taken", name)
		}
	}
	for _, path := range []string{"", "../x", "/x", "a\x00b", "a//b", strings.Repeat("x", 256)} {
		if _, err := p.Put(t.Context(), "main", Stream(path, strings.NewReader("x")), PutOptions{}); err == nil {
			t.Errorf("%q: taken", path)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T, path string) {
	t.Helper()
	short := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", short)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, l.Close())
	must(t, os.Rename(short, path))
}

// deep makes a path that is longer than any system call takes.
func deep(t *testing.T, dir string) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	must(t, err)
	part := strings.Repeat("x", 250)
	for range 17 {
		must(t, at.Mkdir(part, 0o755))
		next, err := at.OpenRoot(part)
		must(t, errors.Join(err, at.Close()))
		at = next
	}
	must(t, errors.Join(at.WriteFile("f", nil, 0o600), at.Close()))
}

func TestFilesAndFoldersAtOnce(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("a/b", strings.NewReader("x")), AddOptions{})
	for _, path := range []string{"a", "a/b/c"} {
		if _, err := p.Put(t.Context(), "main", Stream(path, strings.NewReader("y")), PutOptions{}); err == nil || !strings.Contains(err.Error(), "a folder") {
			t.Errorf("%s: %v", path, err)
		}
	}
	both := tarOf(t, map[string]string{"x": "1"})
	both = append(both[:1024], tarOf(t, map[string]string{"x/y": "2"})...)
	if _, err := p.Put(t.Context(), "new", Tar(bytes.NewReader(both)), PutOptions{}); err == nil {
		t.Error("a tar with a file that is a folder was taken")
	}
	put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, map[string]string{"a": "y"}))), AddOptions{Replace: true})
	same(t, "in place", map[string]string{"a": "y"}, held(t, p.Dataset, "main"))
}

// TestAFileThatChangesWhileItIsRead is noticed: one that always does is refused.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	for name, size := range map[string]int{"small": 1000, "long": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			src := t.TempDir()
			path := filepath.Join(src, "f")
			files(t, src, map[string]string{"f": noise(6, size)})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := int64(1); ctx.Err() == nil; i++ {
					at := time.Unix(i, 0)
					_ = os.Chtimes(path, at, at)
				}
			}()
			seen := false
			for i := 0; i < 50 && !seen; i++ { // it may happen to be quick enough, three times in a row
				_, err := p.Put(t.Context(), "main", Folder(src), PutOptions{})
				seen = err != nil && strings.Contains(err.Error(), "changes while it is read")
				if err != nil && !seen {
					t.Error(err)
				}
			}
			stop()
			<-done
			if !seen {
				t.Error("never noticed")
			}
			put(t, p.Dataset, "main", Folder(src), AddOptions{})
			same(t, "once it is quiet", map[string]string{"f": noise(6, size)}, held(t, p.Dataset, "main"))
		})
	}
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
	put(t, p.Dataset, "main", Stream("d07/f00007", strings.NewReader("other")), AddOptions{})
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
