package cache

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/osfile"
)

// RoomError says that something does not fit.
type RoomError struct {
	// Need is how many bytes it has.
	Need int64
	// Limit is how many the cache may have, Free how many the file system has left.
	Limit, Free int64
	// Held is how many are held or in use.
	Held int64
}

// Never says that it does not fit even where nobody uses anything.
func (e *RoomError) Never() bool { return e.Need > e.Limit }

// Error implements error.
func (e *RoomError) Error() string {
	switch {
	case e.Never():
		return fmt.Sprintf("%s do not fit into the machine's cache of data, which may have %s: read a part of it (path), or give the cache more room", Size(e.Need), Size(e.Limit))
	case e.Held+e.Need > e.Limit:
		return fmt.Sprintf("no room for %s: the machine's cache of data may have %s, and %s of it are in use", Size(e.Need), Size(e.Limit), Size(e.Held))
	}
	return fmt.Sprintf("no room for %s: the disk of the machine's cache of data has %s left, and nothing that could be removed", Size(e.Need), Size(e.Free))
}

// Size is a number of bytes in words.
func Size(bytes int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if bytes >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// space is how much a file system has, and how much of it is left.
func space(dir string) (all, left int64, err error) {
	if all, left, err = osfile.Space(dir); err != nil {
		return 0, 0, fmt.Errorf("asking how much room there is in %s: %w", dir, err)
	}
	return all, left, nil
}

// room takes room for an entry, and removes for it what nobody uses, that which was
// used longest ago first. What would not be enough is left alone, and so is what spare
// says.
func (c *Cache) room(ctx context.Context, e *entry, part data.Part, spare Spare) error {
	if err := c.sweep(); err != nil {
		return err
	}
	_, left, err := space(c.dir)
	if err != nil {
		return err
	}
	left -= spare.Leave
	if c.reserve(e, part, left) {
		return nil
	}
	asked := time.Now().Add(-spare.Idle)
	used := maps.Clone(spare.Keep)
	if used == nil {
		used = map[string]bool{}
	}
	if c.inUse != nil {
		named, err := c.inUse(ctx)
		if err != nil {
			return fmt.Errorf("finding out which data may be removed: %w", err)
		}
		maps.Copy(used, named)
	}
	if err := c.clear(e, part, left, used, asked); err != nil {
		return err
	}
	return c.sweep()
}

// Disk is how many bytes the file system has that the cache is on.
func (c *Cache) Disk() (int64, error) {
	all, _, err := space(c.dir)
	return all, err
}

// reserve counts an entry if there is room for it.
func (c *Cache) reserve(e *entry, part data.Part, left int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over(e, part, left) > 0 {
		return false
	}
	c.take(e, part)
	return true
}

// take counts what an entry is going to have. The lock is held.
func (c *Cache) take(e *entry, part data.Part) {
	c.total += part.Bytes - e.bytes
	e.whole, e.begun, e.files, e.bytes = false, true, part.Files, part.Bytes
}

// over is by how much there is too much with an entry. The lock is held.
func (c *Cache) over(e *entry, part data.Part, left int64) int64 {
	more := part.Bytes
	if e.begun {
		more = 0 // most of it may be there already
	}
	return max(c.total-e.bytes+part.Bytes-c.limit, more-left)
}

// clear makes room, or says why there is none.
func (c *Cache) clear(e *entry, part data.Part, left int64, used map[string]bool, asked time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var idle []*entry
	var held, free int64
	for _, other := range c.entries {
		switch {
		case other == e:
		case other.holds > 0 || used[other.key] || other.used.After(asked):
			held += other.bytes
		default:
			idle = append(idle, other)
			free += other.bytes
		}
	}
	over := c.over(e, part, left)
	if over > free {
		return &RoomError{Need: part.Bytes, Limit: c.limit, Free: max(0, left), Held: held}
	}
	slices.SortFunc(idle, func(a, b *entry) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.key, b.key))
	})
	for _, other := range idle {
		if over <= 0 {
			break
		}
		if err := c.condemn(other); err != nil {
			return err
		}
		over -= other.bytes
	}
	c.take(e, part)
	return nil
}
