package cache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestHostileCommits: what an agent does as root with what a tenant has stored. Two commits, of
// which one puts links into the folder of the other, lead to no folder of the machine's.
func TestHostileCommits(t *testing.T) {
	s := newShop(t, Options{Guarded: true})
	host := filepath.Join(filepath.Dir(s.dir), "host", "cdi") // stands for /var/run/cdi
	must(t, os.MkdirAll(host, 0o755))
	must(t, os.WriteFile(filepath.Join(host, "nvidia.json"), []byte("the machine's own"), 0o644))
	at := func(c crafted.Commit) *data.View {
		v, err := s.set.At(t.Context(), c.ID.String())
		must(t, err)
		return v
	}
	// 1. A commit whose contents are not there yet: its folder is made, and stays empty.
	b, err := crafted.Store(t.Context(), s.bytes, -1, -1, crafted.Entry{Path: "evil.json", Content: "{}"})
	must(t, err)
	if _, _, err := s.EnsureFor(t.Context(), "mallory", at(b), "", nil); err == nil {
		t.Fatal("it is there without its contents")
	}
	// 2. Another one, of links alone, would put a link in that folder's place.
	key := Scoped("mallory", Key(at(b), ""))
	a, err := crafted.Store(t.Context(), s.bytes, -1, -1,
		crafted.Entry{Path: "a/b/c/up", Target: "../../.."},
		crafted.Entry{Path: "p/q/r/s/z", Target: "../../../../a/b/c/up/../../" + key},
		crafted.Entry{Path: "p/q/r/s/z/files", Target: "../../host/cdi"},
	)
	must(t, err)
	if _, _, err := s.EnsureFor(t.Context(), "mallory", at(a), "", nil); err == nil {
		t.Error("a commit with an entry below a link was fetched")
	}
	// 3. Even with a link there the contents come into a folder of their own.
	files := filepath.Join(s.dir, key, filesFolder)
	must(t, os.RemoveAll(files))
	must(t, os.Symlink(host, files))
	must(t, b.Contents(t.Context()))
	f, release, err := s.EnsureFor(t.Context(), "mallory", at(b), "", nil)
	must(t, err)
	defer release()
	if text, err := os.ReadFile(filepath.Join(f.Path, "evil.json")); err != nil || string(text) != "{}" {
		t.Errorf("%q %v", text, err)
	}
	if left, err := os.ReadDir(host); err != nil || len(left) != 1 || left[0].Name() != "nvidia.json" {
		t.Errorf("the folder of the machine has %v, %v", left, err)
	}
}

// TestAFalseClaimTakesNoRoom: a commit that has more than it claims is not fetched.
func TestAFalseClaimTakesNoRoom(t *testing.T) {
	for name, list := range map[string][]crafted.Entry{
		"bytes": {{Path: "large", Content: string(make([]byte, 1<<20))}},
		"files": {{Path: "a", Content: "1"}, {Path: "b", Content: "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, Options{Guarded: true, Limit: 10_000})
			c, err := crafted.Store(t.Context(), s.bytes, 1, 2, list...)
			must(t, err)
			must(t, c.Contents(t.Context()))
			v, err := s.set.At(t.Context(), c.ID.String())
			must(t, err)
			if f, _, err := s.EnsureFor(t.Context(), "mallory", v, "", nil); err == nil {
				t.Errorf("it is there: %+v", f)
			}
		})
	}
}
