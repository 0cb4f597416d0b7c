package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/pack"
)

func TestWhatAPathMeans(t *testing.T) {
	s := newShop(t, Options{})
	v := s.put("main", map[string]string{"train/a.png": "A", "train/deep/b.png": "B", "train/c.txt": "C", "run.sh": "R"})
	all := map[string]string{"train/a.png": "A", "train/deep/b.png": "B", "train/c.txt": "C", "run.sh": "R"}
	for path, want := range map[string]map[string]string{
		"":                 all,
		"/":                all,
		"train":            {"a.png": "A", "deep/b.png": "B", "c.txt": "C"},
		"/train/":          {"a.png": "A", "deep/b.png": "B", "c.txt": "C"},
		"train/deep/b.png": {"b.png": "B"},
		"run.sh":           {"run.sh": "R"},
		"train/*.png":      {"a.png": "A"},
		"/**/*.png":        {"train/a.png": "A", "train/deep/b.png": "B"},
	} {
		f, release := s.want(v, path, want)
		release()
		var bytes int64
		for _, content := range want {
			bytes += int64(len(content))
		}
		if f.Files != int64(len(want)) || f.Bytes != bytes || f.Key != Key(v, path) {
			t.Errorf("%q: %+v", path, f)
		}
	}
	for _, path := range []string{"test", "train/*.jpg", "train/a.png/x"} {
		if _, _, err := s.Ensure(t.Context(), v, path, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestOnce: what is there is not fetched again, whatever commit it is of and however
// many want it, by this process or the next.
func TestOnce(t *testing.T) {
	s := newShop(t, Options{})
	files := many(1)
	v := s.put("main", files)
	var all sync.WaitGroup
	var told sync.Map
	for i := range 8 {
		all.Go(func() {
			f, release, err := s.Ensure(t.Context(), v, "", func(p data.Progress) {
				s.Path(Key(v, "")) // who hears may ask
				told.Store(i, p)
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if _, ok := s.Path(f.Key); !ok {
				t.Error("it is held, and not there")
			}
		})
	}
	all.Wait()
	read := s.bytes.bytes.Load()
	if most := int64(8 << 20); read > most {
		t.Errorf("%d bytes were read for 6 MiB", read)
	}
	heard := false
	told.Range(func(_, p any) bool {
		is := p.(data.Progress)
		heard = true
		if is.TotalFiles != int64(len(files)) || is.TotalBytes != v.Commit().Tree.Bytes || is.Bytes != is.TotalBytes {
			t.Errorf("told last: %+v", is)
		}
		return true
	})
	if !heard {
		t.Error("nobody heard how far it was")
	}
	s.put("other", map[string]string{"x": "y"})
	again := s.put("again", files)
	read = s.bytes.bytes.Load()
	for range 2 {
		_, release := s.want(again, "", files)
		release()
		s.open(Options{})
	}
	if now := s.bytes.bytes.Load(); now != read {
		t.Errorf("%d bytes were read again", now-read)
	}
}

// TestWrittenByAReader: whatever a job does to the files, the next one reads what the
// commit holds, and nothing else is fetched.
func TestWrittenByAReader(t *testing.T) {
	files := many(2)
	for name, harm := range map[string]func(dir string) error{
		"overwritten": func(dir string) error {
			return errors.Join(os.Chmod(filepath.Join(dir, "1/4"), 0o644), os.WriteFile(filepath.Join(dir, "1/4"), []byte(noise(9, len(files["1/4"]))), 0o644))
		},
		"taken away": func(dir string) error { return os.Remove(filepath.Join(dir, "1/4")) },
		"added":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "1/more"), nil, 0o644) },
		"a folder":   func(dir string) error { return os.Mkdir(filepath.Join(dir, "new"), 0o755) },
		"replaced": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "1/4")), os.Symlink("7", filepath.Join(dir, "1/4")))
		},
		"all of it": os.RemoveAll,
	} {
		mended := func(t *testing.T, o Options) {
			s := newShop(t, o)
			v := s.put("main", files)
			f, release := s.want(v, "", files)
			release()
			must(t, harm(f.Path))
			if name != "all of it" { // a while later
				later := time.Now().Add(time.Second)
				for _, path := range []string{f.Path, filepath.Join(f.Path, "1")} {
					must(t, os.Chtimes(path, later, later))
				}
				if name == "overwritten" {
					must(t, os.Chtimes(filepath.Join(f.Path, "1/4"), later, later))
				}
			}
			before := s.bytes.bytes.Load()
			_, release = s.want(v, "", files)
			release()
			if read := s.bytes.bytes.Load() - before; name != "all of it" && read > 300_000 {
				t.Errorf("%d bytes were read to mend it", read)
			}
		}
		t.Run(name, func(t *testing.T) { mended(t, Options{}) })
		if name != "overwritten" { // which mounts keep readers from
			t.Run(name+", guarded", func(t *testing.T) { mended(t, Options{Guarded: true}) })
		}
	}
}

// TestAnotherBoot: after one, files may have lost what was not on disk.
func TestAnotherBoot(t *testing.T) {
	s := newShop(t, Options{})
	files := many(3)
	v := s.put("main", files)
	f, release := s.want(v, "", files)
	release()
	at := filepath.Join(f.Path, "long")
	info, err := os.Stat(at)
	must(t, err)
	must(t, os.Chmod(at, 0o644))
	must(t, os.Truncate(at, 1<<20))
	must(t, os.Truncate(at, info.Size()))
	must(t, os.Chmod(at, 0o444))
	must(t, os.Chtimes(at, info.ModTime(), info.ModTime()))
	// Within a boot that goes unnoticed: nobody did it by accident.
	s.open(Options{})
	if _, ok := s.Path(f.Key); !ok {
		t.Fatal("it is not there any more")
	}
	for _, e := range s.entries {
		n := note{Whole: true, Boot: "an earlier one", Files: e.files, Bytes: e.bytes, Newest: e.newest}
		must(t, n.write(filepath.Join(s.dir, e.key)))
	}
	s.open(Options{})
	if _, ok := s.Path(f.Key); ok {
		t.Fatal("it is trusted after another boot")
	}
	before := s.bytes.bytes.Load()
	_, release = s.want(v, "", files)
	release()
	if read := s.bytes.bytes.Load() - before; read > 7<<20 {
		t.Errorf("%d bytes were read to mend 6 MiB", read)
	}
}

// TestBrokenOff: who gives up keeps nobody from going on.
func TestBrokenOff(t *testing.T) {
	s := newShop(t, Options{})
	files := many(4)
	v := s.put("main", files)
	ctx, cancel := context.WithCancel(t.Context())
	s.bytes.gate = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	if _, _, err := s.Ensure(ctx, v, "", nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.bytes.gate = nil
	_, release := s.want(v, "", files)
	release()
}

// TestLongFileGoesOn: of a long file that was broken off only what is missing is
// fetched.
func TestLongFileGoesOn(t *testing.T) {
	const size = 64 << 20
	s := newShop(t, Options{})
	files := map[string]string{"long": noise(10, size)}
	v := s.put("main", files)
	start := s.bytes.bytes.Load()
	ctx, cancel := context.WithCancel(t.Context())
	s.bytes.gate = func(ctx context.Context) error {
		if s.bytes.bytes.Load()-start > size*3/4 {
			cancel()
		}
		return ctx.Err()
	}
	if _, _, err := s.Ensure(ctx, v, "", nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.bytes.gate = nil
	s.open(Options{})
	_, release := s.want(v, "", files)
	release()
	// As many as are fetched at once may be lost, of 4 MiB at most.
	if read := s.bytes.bytes.Load() - start; read > size+9*(4<<20) {
		t.Errorf("%d bytes were read for %d", read, size)
	}
}

// TestDamage: what is damaged in the store is never served.
func TestDamage(t *testing.T) {
	s := newShop(t, Options{})
	v := s.put("main", many(5))
	s.bytes.gate = func(context.Context) error { return pack.ErrDamaged }
	if _, _, err := s.Ensure(t.Context(), v, "", nil); !errors.Is(err, pack.ErrDamaged) {
		t.Errorf("%v", err)
	}
	if _, ok := s.Path(Key(v, "")); ok {
		t.Error("it is served")
	}
}

// TestCrash ends the process, as far as the folder can tell, before each step of a
// fetch, and of one that mends.
func TestCrash(t *testing.T) {
	crash := errors.New("crash")
	files, other := many(6), many(7)
	for _, at := range []string{"room", "note", "files", "whole"} {
		for _, mends := range []bool{false, true} {
			s := newShop(t, Options{Limit: 9 << 20})
			v := s.put("main", files)
			second := s.put("other", other)
			var path string
			if mends {
				f, release := s.want(v, "", files)
				release()
				path = f.Path
				must(t, os.Remove(filepath.Join(path, "long")))
			} else {
				_, release := s.want(second, "", other) // for which there is no room beside it
				release()
			}
			s.step = func(name string) error {
				if name == at {
					return crash
				}
				return nil
			}
			if _, _, err := s.Ensure(t.Context(), v, "", nil); !errors.Is(err, crash) {
				t.Fatal(at, err)
			}
			s.open(Options{Limit: 9 << 20})
			if _, ok := s.Path(Key(v, "")); ok && !mends {
				t.Errorf("%s: half of it is served", at)
			}
			_, release := s.want(v, "", files)
			release()
			if sum := onDisk(t, s.dir); sum > 9<<20 {
				t.Errorf("%s: %d bytes are on disk", at, sum)
			}
		}
	}
}

// onDisk is how large all files of a cache are.
func onDisk(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		sum += info.Size()
		return err
	}))
	return sum
}

func TestRubbish(t *testing.T) {
	s := newShop(t, Options{})
	v := s.put("main", map[string]string{"a": "b"})
	for _, name := range []string{"something", Key(v, "") + ".gone-X", Key(v, "x")} {
		must(t, os.MkdirAll(filepath.Join(s.dir, name, "files"), 0o755))
	}
	s.open(Options{})
	_, release := s.want(v, "", map[string]string{"a": "b"})
	release()
	found, err := os.ReadDir(s.dir)
	must(t, err)
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
	}
	if diff := cmp.Diff([]string{Key(v, "")}, names); diff != "" {
		t.Error(diff)
	}
}

// TestScopes: what one of several has the other fetches anew, and lends nothing to it;
// the next process knows whose is whose.
func TestScopes(t *testing.T) {
	s := newShop(t, Options{})
	files := many(21)
	v := s.put("main", files)
	has := func(scope string, v *data.View) (Folder, int64) {
		t.Helper()
		before := s.bytes.bytes.Load()
		f, release, err := s.EnsureFor(t.Context(), scope, v, "", nil)
		must(t, err)
		release()
		if f.Key != Scoped(scope, Key(v, "")) {
			t.Errorf("the key of %q is %s", scope, f.Key)
		}
		return f, s.bytes.bytes.Load() - before
	}
	ours, _ := has("ours", v)
	theirs, read := has("theirs", v)
	if theirs.Path == ours.Path || read < 6<<20 {
		t.Errorf("of 6 MiB that another has %d bytes were read", read)
	}
	if _, here := s.Path(Key(v, "")); here {
		t.Error("it is there for everybody")
	}
	files["new"] = noise(99, 1000)
	next := s.put("main", files)
	s.open(Options{})
	if _, read := has("ours", next); read > 1<<20 {
		t.Errorf("%d bytes were read for a file of 1000", read)
	}
	if _, read := has("nobody", next); read < 6<<20 {
		t.Errorf("others lent: %d bytes were read", read)
	}
}
