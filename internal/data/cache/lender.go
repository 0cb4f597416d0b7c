package cache

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

const (
	// ancestors is how many commits before one are looked for in the cache.
	ancestors = 16
	// mostChanged is which part of the files may differ, as 1/n, for an entry to lend
	// the others.
	mostChanged = 2
	// fewFiles are fetched before it is found out who has them.
	fewFiles = 32
)

// lender is an entry of a commit before, of which another has most files. Without one
// it lends nothing.
type lender struct {
	// root is the cache's folder; from and to are the two folders of files in it.
	root     *os.Root
	from, to string
	below    string
	changed  map[string]bool
	each     bool // its files are looked at one by one
	release  func()
}

// lender finds an entry of the same path of a commit before that is whole and as it
// was fetched; it is held until the release. All of this only saves time: whatever
// fails, files are fetched.
func (c *Cache) lender(ctx context.Context, root *os.Root, e *entry, v *data.View, name string, part data.Part) *lender {
	none := &lender{release: func() {}}
	if part.Files < fewFiles {
		return none
	}
	known := c.known(e, name)
	if len(known) == 0 {
		return none
	}
	before := v
	for range ancestors {
		var err error
		if before, err = before.Parent(ctx); err != nil {
			return none
		}
		other := known[before.Commit().ID]
		if other == nil || !c.hold(other) {
			continue
		}
		l := &lender{
			root: root, from: path.Join(other.key, filesFolder), to: path.Join(e.key, filesFolder), below: part.Below, changed: map[string]bool{}, each: !c.guarded,
			release: func() { c.release(other) },
		}
		if l.compare(ctx, other, before, v, part, filepath.Join(c.dir, other.key)) {
			return l
		}
		l.release()
		return none
	}
	return none
}

// known are the whole entries of a path in the same scope, by commit.
func (c *Cache) known(e *entry, name string) map[digest.ID]*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[digest.ID]*entry{}
	for _, other := range c.entries {
		if other != e && other.scope == e.scope && other.whole && other.busy == nil && other.path == name {
			found[other.commit] = other
		}
	}
	return found
}

// hold keeps an entry, if it is still there.
func (c *Cache) hold(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[e.key] != e {
		return false
	}
	e.holds++
	return true
}

// compare finds out what differs, and says whether the rest is worth lending.
func (l *lender) compare(ctx context.Context, e *entry, before, now *data.View, part data.Part, folder string) bool {
	if same, err := e.intact(ctx, folder, l.each); err != nil || !same {
		return false
	}
	most := int(part.Files / mostChanged)
	err := data.Diff(ctx, before, now, func(d data.Change) error {
		l.changed[d.Path] = true
		if len(l.changed) > most {
			return data.Stop
		}
		return nil
	})
	return err == nil && len(l.changed) <= most
}

// lend links a file that has not changed to a path in the files of the other entry.
func (l *lender) lend(e *data.Entry, to string) bool {
	if l.root == nil || l.changed[e.Path] {
		return false
	}
	from := e.Path
	if l.below != "" {
		from = strings.TrimPrefix(from, l.below+"/")
	}
	return l.root.Link(path.Join(l.from, from), path.Join(l.to, to)) == nil
}
