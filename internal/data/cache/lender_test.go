package cache

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data"
)

// links is how many names a file has.
func links(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return fmt.Sprint(info.Sys().(*syscall.Stat_t).Nlink)
}

// TestLent: of a commit that changes little only that is fetched, and each entry is
// its commit's whatever becomes of the other.
func TestLent(t *testing.T) {
	s := newShop(t, Options{})
	first := many(11)
	v1 := s.put("main", first)
	old, release := s.want(v1, "", first)
	release()
	second := maps.Clone(first)
	second["1/1"], second["new/x"] = noise(1, 5000), noise(2, 5000)
	delete(second, "2/2")
	src := t.TempDir()
	for _, name := range []string{"1/1", "new/x"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(src, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(src, name), []byte(second[name]), 0o644))
	}
	_, err := s.set.Put(t.Context(), "main", data.Folder(src), data.PutOptions{})
	must(t, err)
	session, err := s.set.Begin(t.Context(), "main", data.SessionOptions{})
	must(t, err)
	_, err = session.Remove(t.Context(), "2/2")
	must(t, err)
	_, err = session.Commit(t.Context(), data.CommitOptions{})
	must(t, errors.Join(err, session.Close(t.Context())))
	v2, err := s.set.At(t.Context(), "main")
	must(t, err)
	before := s.bytes.bytes.Load()
	s.open(Options{}) // by the next process, too
	now, release := s.want(v2, "", second)
	defer release()
	if read := s.bytes.bytes.Load() - before; read > 100_000 {
		t.Errorf("%d bytes were read for 10,000 that are new", read)
	}
	for name, want := range map[string]string{"long": "2", "0/3": "2", "1/1": "1", "new/x": "1"} {
		if got := links(t, filepath.Join(now.Path, name)); got != want {
			t.Errorf("%s has %s names instead of %s", name, got, want)
		}
	}
	// One that was written in is written in both, which both notice.
	at, later := filepath.Join(now.Path, "0/3"), time.Now().Add(time.Second)
	must(t, os.Chmod(at, 0o644))
	must(t, os.WriteFile(at, []byte("harm"), 0o644))
	must(t, os.Chtimes(at, later, later))
	_, release = s.want(v1, "", first)
	release()
	_, release = s.want(v2, "", second)
	release()
	// What is removed of the one stays in the other.
	must(t, os.RemoveAll(filepath.Dir(old.Path)))
	_, release = s.want(v2, "", second)
	release()
}

// TestNotLent: neither from a commit in which most is another, nor from an entry that
// was written in, nor of another path.
func TestNotLent(t *testing.T) {
	base := many(12)
	for name, tt := range map[string]struct {
		path    string
		changes int
		harm    bool
	}{
		"too different": {"", 50, false},
		"written in":    {"", 1, true},
		"another path":  {"1", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, Options{})
			f, release := s.want(s.put("main", base), "", base)
			release()
			next := maps.Clone(base)
			for i := range tt.changes {
				next[fmt.Sprintf("%d/%d", i%3, i)] = noise(uint64(i), 100)
			}
			if tt.harm {
				later := time.Now().Add(time.Second)
				must(t, os.Chtimes(filepath.Join(f.Path, "0/3"), later, later))
			}
			v := s.put("main", next)
			want := next
			if tt.path != "" {
				want = map[string]string{}
				for path, content := range next {
					if rest, ok := filepath.Rel(tt.path, path); ok == nil && filepath.IsLocal(rest) {
						want[rest] = content
					}
				}
			}
			f, release = s.want(v, tt.path, want)
			release()
			for path := range want {
				if links(t, filepath.Join(f.Path, path)) != "1" {
					t.Fatalf("%s is shared", path)
				}
			}
		})
	}
}
