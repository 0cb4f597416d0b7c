package reading

import (
	"testing"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestHostileCommits: a commit that no checkout writes is a final error.
func TestHostileCommits(t *testing.T) {
	for name, c := range map[string]struct {
		files, bytes int64
		list         []crafted.Entry
	}{
		"more files than it claims": {1, -1, []crafted.Entry{{Path: "a", Content: "1"}, {Path: "b", Content: "2"}}},
		"more bytes than it claims": {-1, 1, []crafted.Entry{{Path: "a", Content: "many"}}},
		"an entry below a link":     {-1, -1, []crafted.Entry{{Path: "a", Target: "b"}, {Path: "a/x", Content: "1"}}},
		"a link out":                {-1, -1, []crafted.Entry{{Path: "a", Target: "../x"}}},
		"a name of ours":            {-1, -1, []crafted.Entry{{Path: ".muster-partial-0", Content: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			bytes := &backend.Memory{}
			store, err := data.Open(t.Context(), data.Options{Backend: bytes, Workers: 2})
			must(t, err)
			defer func() { must(t, store.Close()) }()
			stored, err := crafted.Store(t.Context(), bytes, c.files, c.bytes, c.list...)
			must(t, err)
			must(t, stored.Contents(t.Context()))
			view, err := store.Dataset(&ref.Memory{}).At(t.Context(), stored.ID.String())
			must(t, err)
			kept, err := cache.Open(cache.Options{Dir: t.TempDir()})
			must(t, err)
			if _, _, err := kept.Ensure(t.Context(), view, "", nil); err == nil || !final(err) {
				t.Errorf("it is tried again: %v", err)
			}
		})
	}
}
