package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

const (
	// MostFollowed is how many links Linux follows for one path.
	MostFollowed = 40
	// mostCompared bounds how many bytes of paths are compared to follow all links of a tree, which
	// takes less than a second. Honest trees compare none or a few thousand.
	mostCompared = 1 << 28
)

// ErrWinding is the error for links that cost too much to follow.
var ErrWinding = errors.New("there are too many links whose targets go down and up again: shorten the targets, or leave the links out")

// Effort counts the work of following links for one caller. The zero value is ready for use.
type Effort struct{ compared int }

// Spend adds the comparison of a path, in bytes. Beyond the limit it returns [ErrWinding].
func (e *Effort) Spend(bytes int) error {
	if e.compared += bytes; e.compared > mostCompared {
		return ErrWinding
	}
	return nil
}

// Links are the symbolic links of a tree: the target of each by its path.
type Links map[string]string

// Check returns an error if a link leads out of the tree, over other links too. A loop of links
// leads nowhere and is allowed.
func (l Links) Check() error {
	var effort Effort
	for link, target := range l {
		if err := CheckTarget(link, target); err != nil {
			return err
		}
		if !returns(target) {
			continue
		}
		out, err := escapes(link, target, l.get, &effort)
		if err != nil {
			return err
		}
		if out {
			return leadsOut(link, target)
		}
	}
	return nil
}

func (l Links) get(path string) (string, bool, error) {
	target, ok := l[path]
	return target, ok, nil
}

func leadsOut(link, target string) error {
	return fmt.Errorf("link %q leads to %q, out of the tree over another link: make it a link within, or leave it out", link, target)
}

// CheckLink returns an error if a link of a tree leads out of it over other links. It reads the
// entries that the link leads over. A later change of those may have the link lead out, which
// [Links.Check] finds.
func (t *Tree) CheckLink(ctx context.Context, root Root, e *Entry) error {
	if !returns(e.Target) {
		return nil
	}
	out, err := escapes(e.Path, e.Target, func(path string) (string, bool, error) {
		found, err := t.Get(ctx, root, path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		return found.Target, err == nil && found.Kind == Link, err
	}, &Effort{})
	if err == nil && out {
		err = leadsOut(e.Path, e.Target)
	}
	return err
}

// returns reports whether a target goes up after it went down. Only then what it goes down through
// matters: a link that goes up at its beginning alone is where it seems to be, and a name that
// follows a link is inside of where that link leads.
func returns(target string) bool {
	down := false
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if down {
				return true
			}
		default:
			down = true
		}
	}
	return false
}

// escapes follows a link as the kernel does, and reports whether it leads out. get returns the target
// of the link at a path, if there is one.
func escapes(link, target string, get func(path string) (string, bool, error), effort *Effort) (bool, error) {
	at := path.Dir(link) // the folder that was reached
	if at == "." {
		at = ""
	}
	rest, followed := target, 1
	for rest != "" {
		name, behind, _ := strings.Cut(rest, "/")
		rest = behind
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return true, nil
			}
			at = at[:max(strings.LastIndexByte(at, '/'), 0)]
			continue
		}
		here := strings.TrimPrefix(at+"/"+name, "/")
		if err := effort.Spend(len(here)); err != nil {
			return false, err
		}
		next, isLink, err := get(here)
		if err != nil {
			return false, err
		}
		if !isLink {
			at = here
			continue
		}
		if followed++; followed > MostFollowed {
			return false, nil
		}
		rest = next + "/" + rest
	}
	return false, nil
}
