package tree

import (
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/data/pack"
)

// nesting finds a path that is a file and a folder at once, in paths that come in order. No session
// makes such a tree. Who writes it to a disk would write through a link, if the file is one.
type nesting struct {
	// open are the entries whose names begin the last path, each the beginning of the next.
	open []string
}

// check returns an error if an entry before a path is a folder of it.
func (n *nesting) check(path string) error {
	last := len(n.open)
	for last > 0 && !strings.HasPrefix(path, n.open[last-1]) {
		last-- // nothing that follows begins with it
	}
	n.open = n.open[:last]
	for _, entry := range n.open {
		if path[len(entry)] == '/' {
			return fmt.Errorf("%q is a file or link and, for %q, a folder: %w", entry, path, pack.ErrDamaged)
		}
	}
	n.open = append(n.open, path)
	return nil
}

// checked checks entries before they are shown.
func (n *nesting) checked(yield func(*Entry, error) bool) func(*Entry, error) bool {
	return func(e *Entry, err error) bool {
		if err == nil {
			err = n.check(e.Path)
		}
		if err == nil {
			if err = CheckPath(e.Path); err != nil {
				err = fmt.Errorf("%w: %w", pack.ErrDamaged, err)
			}
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		return yield(e, nil)
	}
}
