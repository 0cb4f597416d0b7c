package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// files writes a folder from a table of paths and contents; a path that ends
// in a slash is a folder.
func files(t testing.TB, table map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range table {
		full := filepath.Join(dir, path)
		if strings.HasSuffix(path, "/") {
			must(t, os.MkdirAll(full, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, []byte(content), 0o644))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "code"))
	must(t, err)
	return s
}

// listing describes a folder's whole content: path, mode, and what is in it.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == "." {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case e.Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		case e.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			content = string(data)
		}
		mode := info.Mode()
		if e.Type() == fs.ModeSymlink {
			mode = fs.ModeSymlink
		}
		out[rel] = mode.String() + " " + content
		return err
	}))
	return out
}

func paths(t testing.TB, s *Store, digest string) []string {
	t.Helper()
	tr, err := s.readTree(digest)
	must(t, err)
	var out []string
	for _, e := range tr.Entries {
		if e.Type != typeFolder {
			out = append(out, e.Path)
		}
	}
	return out
}

func TestSnapshotAndCheckoutAreTheSame(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			dir := randomFolder(t, random)
			store := newStore(t)
			first, err := store.Snapshot(t.Context(), dir, Options{})
			must(t, err)
			dst := filepath.Join(t.TempDir(), "out")
			must(t, store.Checkout(t.Context(), first.Digest, dst))
			if diff := cmp.Diff(listing(t, dir), listing(t, dst)); diff != "" {
				t.Fatal(diff)
			}
			again, err := store.Snapshot(t.Context(), dst, Options{})
			must(t, err)
			if again.Digest != first.Digest || again.StoredBytes != 0 || again.StoredFiles != 0 {
				t.Fatalf("the copy is %+v, the original %+v", again, first)
			}
		})
	}
}

// randomFolder makes a folder of files of many sizes and modes, empty folders
// and links that stay inside.
func randomFolder(t testing.TB, random *rand.Rand) string {
	dir := t.TempDir()
	folders := []string{""}
	for i := range 40 {
		parent := folders[random.IntN(len(folders))]
		name := filepath.Join(parent, fmt.Sprintf("%c%d ü<&>", 'a'+rune(i%26), i))
		full := filepath.Join(dir, name)
		switch random.IntN(5) {
		case 0:
			must(t, os.Mkdir(full, 0o700))
			must(t, os.Chmod(full, fs.FileMode(0o700|random.IntN(0o100))))
			folders = append(folders, name)
		case 1:
			must(t, os.Symlink("x"+fmt.Sprint(i), full)) // dangling, inside
		default:
			size := []int{0, 1, 100, 5000, smallFile, smallFile + 1}[random.IntN(6)]
			data := make([]byte, size)
			for j := range data {
				data[j] = byte(random.Uint32() % 7)
			}
			must(t, os.WriteFile(full, data, 0o600))
			must(t, os.Chmod(full, fs.FileMode(0o400|random.IntN(0o400))))
		}
	}
	return dir
}

func TestUnchangedFolderStoresNothing(t *testing.T) {
	dir := files(t, map[string]string{"a.py": "a", "b.py": "a", "sub/c.py": "c"})
	store := newStore(t)
	var progress []Progress
	first, err := store.Snapshot(t.Context(), dir, Options{Progress: func(p Progress) { progress = append(progress, p) }})
	must(t, err)
	if first.Files != 3 || first.StoredFiles != 2 || first.StoredBytes != 2 || first.Bytes != 3 {
		t.Errorf("first: %+v", first)
	}
	if last := progress[len(progress)-1]; len(progress) != 3 || last != (Progress{3, 3, 3, 3}) {
		t.Errorf("progress: %v", progress)
	}
	second, err := store.Snapshot(t.Context(), dir, Options{})
	must(t, err)
	if second.Digest != first.Digest || second.StoredFiles != 0 || second.StoredBytes != 0 {
		t.Errorf("second: %+v", second)
	}
	if !store.Has(first.Digest) || store.Has("sha256:"+strings.Repeat("0", 64)) || store.Has("../../etc/passwd") {
		t.Error("Has is wrong")
	}
}

func TestEditThatKeepsSizeAndTimeIsNoticed(t *testing.T) {
	dir := files(t, map[string]string{"train.py": "rate = 1"})
	path := filepath.Join(dir, "train.py")
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	must(t, os.Chtimes(path, old, old))
	store := newStore(t)
	first, err := store.Snapshot(t.Context(), dir, Options{})
	must(t, err)
	for _, settled := range []bool{false, true} {
		if settled {
			// As if the last reading had been long after the last edit.
			settle(t, store, dir)
		}
		must(t, os.WriteFile(path, []byte(map[bool]string{false: "rate = 2", true: "rate = 3"}[settled]), 0o644))
		must(t, os.Chtimes(path, old, old))
		next, err := store.Snapshot(t.Context(), dir, Options{})
		must(t, err)
		if next.Digest == first.Digest || next.StoredFiles != 1 {
			t.Errorf("settled %v: the edit went unnoticed: %+v", settled, next)
		}
		first = next
	}
}

// settle makes the index trust what it has read.
func settle(t testing.TB, s *Store, dir string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(dir)
	must(t, err)
	found, err := scan(t.Context(), root, Options{MaxBytes: 1 << 30, MaxFiles: 1 << 20})
	must(t, err)
	in, err := os.OpenRoot(found.dir)
	must(t, err)
	t.Cleanup(func() { _ = in.Close() })
	take := &taking{store: s, found: found, root: in, index: &index{Root: root, Files: map[string]indexedFile{}}, fresh: map[string]string{}}
	must(t, take.files(t.Context()))
	for i := range found.files {
		e := found.tree.Entries[found.files[i].entry]
		take.index.Files[e.Path] = indexedFile{Stamp: stampOf(found.files[i].info), Hash: e.Hash}
	}
	take.index.changed = true
	must(t, s.saveIndex(found, take.index))
}

func TestRacyStampIsNotTrusted(t *testing.T) {
	read := time.Unix(1000, 500)
	for name, c := range map[string]struct {
		changed time.Time
		want    bool
	}{
		"just before":                   {read.Add(-10 * time.Millisecond), true},
		"long before":                   {read.Add(-time.Second), false},
		"after, by a server's clock":    {read.Add(time.Hour), true},
		"whole second, a second before": {time.Unix(999, 0), true},
		"whole second, long before":     {time.Unix(990, 0), false},
	} {
		if got := (stamp{Ctime: c.changed.UnixNano()}).racy(read); got != c.want {
			t.Errorf("%s: racy = %v", name, got)
		}
	}
}

func TestIgnoreRules(t *testing.T) {
	dir := files(t, map[string]string{
		".gitignore":              "*.log\n/build/\n!keep.log\ndata/**/raw\n[ab]?.tmp\n# comment\nspace\\ \ndocs/*.txt\n",
		".musterignore":           "secret.env\n!node_modules\n",
		".git/config":             "x",
		"a.log":                   "",
		"keep.log":                "",
		"build/x":                 "",
		"sub/build/x":             "",
		"sub/.gitignore":          "!a.log\nlocal\n",
		"sub/a.log":               "",
		"sub/local/x":             "",
		"data/one/two/raw/x":      "",
		"data/raw":                "",
		"a1.tmp":                  "",
		"c1.tmp":                  "",
		"docs/a.txt":              "",
		"docs/deep/a.txt":         "",
		"secret.env":              "",
		"__pycache__/m.pyc":       "",
		"node_modules/kept.js":    "",
		"env/pyvenv.cfg":          "",
		"env/bin/python":          "",
		"conda/conda-meta/x.json": "",
		"sub/.git":                "gitdir: elsewhere",
		"main.py":                 "",
	})
	store := newStore(t)
	result, err := store.Snapshot(t.Context(), dir, Options{})
	must(t, err)
	want := []string{".gitignore", ".musterignore", "c1.tmp", "docs/deep/a.txt", "keep.log", "main.py", "node_modules/kept.js", "sub/.gitignore", "sub/a.log", "sub/build/x"}
	if diff := cmp.Diff(want, paths(t, store, result.Digest)); diff != "" {
		t.Error(diff)
	}
	reasons := map[string]string{}
	for _, s := range result.Skipped {
		reasons[s.Path] = s.Reason
	}
	for path, reason := range map[string]string{".git": "Git's own data", "a.log": "ignored by .gitignore", "sub/local": "ignored by sub/.gitignore", "__pycache__": "ignored by the defaults"} {
		if reasons[path] != reason {
			t.Errorf("%s: %q", path, reasons[path])
		}
	}
	if !strings.Contains(reasons["env"], "Python environment") || !strings.Contains(reasons["conda"], "Python environment") {
		t.Errorf("environments: %q, %q", reasons["env"], reasons["conda"])
	}
}

func TestIgnoreRulesOfTheRepositoryAbove(t *testing.T) {
	dir := files(t, map[string]string{".git/": "", ".gitignore": "*.ckpt\n/train/data/\n", "train/a.ckpt": "", "train/data/x": "", "train/a.py": "", "train/deep/data/x": ""})
	store := newStore(t)
	result, err := store.Snapshot(t.Context(), filepath.Join(dir, "train"), Options{})
	must(t, err)
	if diff := cmp.Diff([]string{"a.py", "deep/data/x"}, paths(t, store, result.Digest)); diff != "" {
		t.Error(diff)
	}
}

// TestOwnDataIsNoCode leaves out Muster's data that lies in the folder of the
// code, also where it is named by another path.
func TestOwnDataIsNoCode(t *testing.T) {
	dir := files(t, map[string]string{"train.py": "", "home/etcd/wal": "", "sub/home/x.py": ""})
	other := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, other))
	store := newStore(t)
	result, err := store.Snapshot(t.Context(), dir, Options{Without: filepath.Join(other, "home")})
	must(t, err)
	if diff := cmp.Diff([]string{"sub/home/x.py", "train.py"}, paths(t, store, result.Digest)); diff != "" {
		t.Error(diff)
	}
	if len(result.Skipped) != 1 || result.Skipped[0].Path != "home" {
		t.Errorf("left out: %+v", result.Skipped)
	}
}

func TestSingleFile(t *testing.T) {
	dir := files(t, map[string]string{"train.py": "print(1)", "other.py": ""})
	store := newStore(t)
	result, err := store.Snapshot(t.Context(), filepath.Join(dir, "train.py"), Options{})
	must(t, err)
	if diff := cmp.Diff([]string{"train.py"}, paths(t, store, result.Digest)); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]bool{"train.py": true, "./train.py": true, "other.py": false} {
		if got, err := store.Contains(result.Digest, path); err != nil || got != want {
			t.Errorf("Contains(%s) = %v, %v", path, got, err)
		}
	}
	if _, err := store.Contains("sha256:"+strings.Repeat("0", 64), "x"); !errors.Is(err, ErrNotStored) {
		t.Errorf("got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	link := func(target string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { must(t, os.Symlink(target, filepath.Join(dir, "sub", "link"))) }
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		opts    Options
		want    []string
	}{
		"link out":      {link("../../secret"), Options{}, []string{"sub/link", "leads out of the folder"}},
		"absolute link": {link("/etc/passwd"), Options{}, []string{"sub/link", "/etc/passwd"}},
		"link out through a link": {func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "sub/b/c"), 0o755))
			must(t, os.Symlink("../../..", filepath.Join(dir, "sub/b/c/d")))
			must(t, os.Symlink("d/../x", filepath.Join(dir, "sub/b/c/l")))
			must(t, os.WriteFile(filepath.Join(dir, "../x"), nil, 0o644))
		}, Options{}, []string{"sub/b/c/l"}},
		"too large":      {func(*testing.T, string) {}, Options{MaxBytes: 10}, []string{"16 B", "10 B", "sub/data/ (12 B)", ".musterignore", "volume"}},
		"too many":       {func(*testing.T, string) {}, Options{MaxFiles: 2}, []string{"4 files", "limit for code is 2", "sub/data/ (2 files)", ".musterignore"}},
		"not UTF-8":      {func(t *testing.T, dir string) { must(t, os.WriteFile(filepath.Join(dir, "a\xff"), nil, 0o644)) }, Options{}, []string{`a\xff`, "UTF-8"}},
		"nothing there":  {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, Options{}, []string{"looking for the code", "no such file"}},
		"a named pipe":   {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)); must(t, syscall.Mkfifo(dir, 0o600)) }, Options{}, []string{"neither a folder nor a file"}},
		"broken pattern": {func(t *testing.T, dir string) { must(t, os.Mkdir(filepath.Join(dir, ".gitignore"), 0o755)) }, Options{MaxFiles: 1}, []string{"limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(files(t, map[string]string{"code/a.py": "1", "code/sub/b.py": "123", "code/sub/data/x": "123456", "code/sub/data/y": "123456"}), "code")
			c.prepare(t, dir)
			_, err := newStore(t).Snapshot(t.Context(), dir, c.opts)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestUnreadableFileIsNamed(t *testing.T) {
	if err := readingError("a/b.py", fs.ErrPermission); !strings.Contains(err.Error(), "a/b.py cannot be read") {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		return // root reads everything
	}
	dir := files(t, map[string]string{"b.py": "x"})
	must(t, os.Chmod(filepath.Join(dir, "b.py"), 0))
	if _, err := newStore(t).Snapshot(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "b.py cannot be read") {
		t.Error(err)
	}
}

func TestSpecialFilesAreLeftOutByName(t *testing.T) {
	dir := files(t, map[string]string{"a.py": "1"})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	must(t, err)
	defer func() { _ = listener.Close() }()
	result, err := newStore(t).Snapshot(t.Context(), dir, Options{})
	must(t, err)
	want := []Skipped{{"pipe", "a named pipe cannot be part of a snapshot"}, {"s", "a socket cannot be part of a snapshot"}}
	if diff := cmp.Diff(want, result.Skipped); diff != "" || result.SkippedCount != 2 || result.Files != 1 {
		t.Errorf("%s %+v", diff, result)
	}
}

func TestFileThatKeepsChanging(t *testing.T) {
	dir := files(t, map[string]string{"log": strings.Repeat("x", smallFile+10)})
	path := filepath.Join(dir, "log")
	store := newStore(t)
	// Every time a blob's temporary file is made, the file is written to: it
	// changes between its two readings.
	times := 0
	store.disk = hookedDisk{disk: store.disk, beforeCreate: func() {
		times++
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = fmt.Fprintf(f, "%d", times)
		must(t, errors.Join(err, f.Close()))
	}}
	_, err := store.Snapshot(t.Context(), dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "log changed while it was read, 3 times in a row") || times != 3 {
		t.Fatalf("%d: %v", times, err)
	}
	if left, _ := os.ReadDir(filepath.Join(store.dir, tempDir)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

type hookedDisk struct {
	disk
	beforeCreate func()
}

func (h hookedDisk) create(path string) (file, error) {
	h.beforeCreate()
	return h.disk.create(path)
}

func TestDamageIsFoundAndMended(t *testing.T) {
	dir := files(t, map[string]string{"a.py": "hello", "b.py": "world"})
	for name, damage := range map[string]func(t *testing.T, path string){
		"flipped": func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("hellO"), 0o600)) },
		"cut off": func(t *testing.T, path string) { must(t, os.Truncate(path, 2)) },
		"missing": func(t *testing.T, path string) { must(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			first, err := store.Snapshot(t.Context(), dir, Options{})
			must(t, err)
			settle(t, store, dir)
			tr, err := store.readTree(first.Digest)
			must(t, err)
			damage(t, store.path(blobsDir, tr.Entries[0].Hash))
			dst := filepath.Join(t.TempDir(), "out")
			if err := store.Checkout(t.Context(), first.Digest, dst); !errors.Is(err, ErrDamaged) {
				t.Fatalf("got %v", err)
			}
			if exists(dst) {
				t.Fatal("half a checkout is there")
			}
			again, err := store.Snapshot(t.Context(), dir, Options{})
			must(t, err)
			if again.Digest != first.Digest {
				t.Fatal("another digest")
			}
			must(t, store.Checkout(t.Context(), first.Digest, dst))
		})
	}
}

func TestCheckout(t *testing.T) {
	dir := files(t, map[string]string{"a.py": "1"})
	store := newStore(t)
	result, err := store.Snapshot(t.Context(), dir, Options{})
	must(t, err)
	parent := t.TempDir()
	taken := filepath.Join(parent, "taken")
	must(t, os.MkdirAll(filepath.Join(taken, "x"), 0o755))
	if err := store.Checkout(t.Context(), result.Digest, taken); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a folder: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(parent, ".new.checkout-dead"), 0o755))
	must(t, store.Checkout(t.Context(), result.Digest, filepath.Join(parent, "new")))
	entries, err := os.ReadDir(parent)
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("left over: %v", entries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Checkout(ctx, result.Digest, filepath.Join(parent, "cancelled")); !errors.Is(err, context.Canceled) || exists(filepath.Join(parent, "cancelled")) {
		t.Errorf("cancelled: %v", err)
	}
	if err := store.Checkout(t.Context(), "sha256:"+strings.Repeat("a", 64), filepath.Join(parent, "none")); !errors.Is(err, ErrNotStored) {
		t.Errorf("unknown: %v", err)
	}
}

func BenchmarkSnapshotUnchanged1000(b *testing.B) {
	table := map[string]string{}
	for i := range 1000 {
		table[fmt.Sprintf("package%d/module%d.py", i%37, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 300)
	}
	dir := files(b, table)
	store := newStore(b)
	began := time.Now()
	_, err := store.Snapshot(b.Context(), dir, Options{})
	must(b, err)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-first")
	for b.Loop() {
		result, err := store.Snapshot(b.Context(), dir, Options{})
		must(b, err)
		if result.StoredBytes != 0 {
			b.Fatal("stored again")
		}
	}
}
