package data

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/glob"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Part is what a path means in one commit, as a folder of its own.
type Part struct {
	// Pattern and Below are those of [CheckoutOptions].
	Pattern, Below string
	// Files and Bytes are how much it is.
	Files, Bytes int64
}

// Part finds out what a path means: a folder, whose content comes directly into the
// target; a file; or a glob, of which what matches comes below the folder before its
// first name with *, ? or [. Empty: all. The error wraps [fs.ErrNotExist] where there
// is no such thing. A glob costs a look at every path that begins like it.
func (v *View) Part(ctx context.Context, name string) (Part, error) {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" {
		return Part{Files: v.commit.Tree.Files, Bytes: v.commit.Tree.Bytes}, nil
	}
	if glob.IsPattern(name) {
		return v.matching(ctx, name)
	}
	found, err := v.Stat(ctx, glob.Literal(name))
	if err != nil {
		return Part{}, err
	}
	if found.Kind == tree.Folder {
		return Part{Pattern: glob.Inside(name), Below: found.Path, Files: found.Files, Bytes: found.Size}, nil
	}
	below := path.Dir(found.Path)
	if below == "." {
		below = ""
	}
	return Part{Pattern: name, Below: below, Files: 1, Bytes: found.Size}, nil
}

// matching is what matches a glob.
func (v *View) matching(ctx context.Context, pattern string) (Part, error) {
	p := Part{Pattern: pattern, Below: glob.Base(pattern)}
	err := v.Walk(ctx, pattern, func(e Entry) error {
		p.Files++
		p.Bytes += e.Size
		return nil
	})
	if err == nil && p.Files == 0 {
		err = fmt.Errorf("nothing in commit %s matches %q: %w", v.commit.ID.Short(), pattern, fs.ErrNotExist)
	}
	return p, err
}
