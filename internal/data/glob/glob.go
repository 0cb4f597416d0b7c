package glob

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/tree"
)

// Pattern is a compiled pattern of paths.
type Pattern struct {
	Text string
	// parts are the parts of a glob between slashes; nil without a glob.
	parts []string
	// prefix is the common prefix of all matching paths.
	prefix string
}

// Compile parses a pattern. An empty pattern matches all paths. A plain path matches
// itself and the paths below it. In a glob, * stands for any characters other than
// slashes, ? for one of them, [a-z] for one of a range, and a part ** for any number of
// folders; \ makes the next character literal.
func Compile(text string) (*Pattern, error) {
	text = strings.Trim(text, "/")
	p := &Pattern{Text: text}
	if !strings.ContainsAny(text, `*?[\`) {
		if text != "" {
			if err := tree.CheckPath(text); err != nil {
				return nil, err
			}
		}
		p.prefix = text
		return p, nil
	}
	p.parts = strings.Split(text, "/")
	plain := true
	for _, part := range p.parts {
		if _, err := path.Match(part, ""); err != nil {
			return nil, fmt.Errorf("pattern %q: part %q is no glob: close its brackets, or put \\ before them", text, part)
		}
		if cut := strings.IndexAny(part, `*?[\`); cut >= 0 && plain {
			p.prefix += part[:cut]
			plain = false
		}
		if plain {
			p.prefix += part + "/"
		}
	}
	return p, nil
}

// matches reports whether the pattern matches a path.
func (p *Pattern) matches(name string) bool {
	if p.parts == nil {
		return p.Text == "" || name == p.Text || strings.HasPrefix(name, p.Text+"/")
	}
	return matchParts(p.parts, strings.Split(name, "/"))
}

// matchParts walks both lists at once. After a mismatch it goes back to the last ** and
// lets it match one more name, so the cost is at most the product of the lengths.
func matchParts(parts, names []string) bool {
	i, k, star, from := 0, 0, -1, 0
	for k < len(names) {
		switch {
		case i < len(parts) && parts[i] == "**":
			star, from = i, k
			i++
		case i < len(parts) && matchPart(parts[i], names[k]):
			i++
			k++
		case star >= 0:
			from++
			i, k = star+1, from
		default:
			return false
		}
	}
	for i < len(parts) && parts[i] == "**" {
		i++
	}
	return i == len(parts)
}

func matchPart(part, name string) bool {
	ok, err := path.Match(part, name)
	return ok && err == nil
}

// Through is Entries for callers that read all entries. It prefetches that many nodes of
// the tree.
func (p *Pattern) Through(ctx context.Context, trees *tree.Tree, root tree.Root, ahead int) iter.Seq2[*tree.Entry, error] {
	return func(yield func(*tree.Entry, error) bool) {
		for e, err := range trees.Ahead(ctx, root, p.prefix, ahead) {
			if err == nil && !p.matches(e.Path) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Entries returns the matching entries of a tree, in order.
func (p *Pattern) Entries(ctx context.Context, trees *tree.Tree, root tree.Root) iter.Seq2[*tree.Entry, error] {
	return func(yield func(*tree.Entry, error) bool) {
		for e, err := range trees.From(ctx, root, p.prefix) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !strings.HasPrefix(e.Path, p.prefix) {
				return
			}
			if p.matches(e.Path) && !yield(e, nil) {
				return
			}
		}
	}
}

// IsPattern reports whether a path has a wildcard without a backslash before it.
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

// Literal returns the path for a pattern without wildcards: it removes the backslashes.
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

// Base returns the folder that contains all matches of a pattern: the names before the
// first one with a wildcard. It is empty for the root.
func Base(pattern string) string {
	names := strings.Split(pattern, "/")
	fixed := 0
	for fixed < len(names)-1 && !IsPattern(names[fixed]) {
		fixed++
	}
	return Literal(strings.Join(names[:fixed], "/"))
}

// Inside returns a pattern that matches all paths in a folder. The path has no wildcards.
// A path with backslashes needs /** at its end, because Compile reads it as a glob.
func Inside(path string) string {
	if strings.Contains(path, `\`) {
		return path + "/**"
	}
	return path
}
