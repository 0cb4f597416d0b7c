package data

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/tree"
)

// IsPattern reports whether a path holds anything that stands for other
// characters.
func IsPattern(path string) bool {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// Literal is a path that is no pattern, without its backslashes.
func Literal(pattern string) string {
	var text strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		text.WriteByte(pattern[i])
	}
	return text.String()
}

// Base is the folder in which everything is that matches a pattern: what comes
// before its first name that stands for others; empty: the top.
func Base(pattern string) string {
	names := strings.Split(pattern, "/")
	fixed := 0
	for fixed < len(names)-1 && !IsPattern(names[fixed]) {
		fixed++
	}
	return Literal(strings.Join(names[:fixed], "/"))
}

// Inside is the pattern of everything in the folder that a path names, which is no
// pattern itself. A path is taken for its folder only where nothing in it has to be
// taken literally.
func Inside(path string) string {
	if strings.Contains(path, `\`) {
		return path + "/**"
	}
	return path
}

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
	if IsPattern(name) {
		return v.matching(ctx, name)
	}
	found, err := v.Stat(ctx, Literal(name))
	if err != nil {
		return Part{}, err
	}
	if found.Kind == tree.Folder {
		return Part{Pattern: Inside(name), Below: found.Path, Files: found.Files, Bytes: found.Size}, nil
	}
	below := path.Dir(found.Path)
	if below == "." {
		below = ""
	}
	return Part{Pattern: name, Below: below, Files: 1, Bytes: found.Size}, nil
}

// matching is what matches a glob.
func (v *View) matching(ctx context.Context, glob string) (Part, error) {
	p := Part{Pattern: glob, Below: Base(glob)}
	err := v.Walk(ctx, glob, func(e Entry) error {
		p.Files++
		p.Bytes += e.Size
		return nil
	})
	if err == nil && p.Files == 0 {
		err = fmt.Errorf("nothing in commit %s matches %q: %w", v.commit.ID.Short(), glob, fs.ErrNotExist)
	}
	return p, err
}
