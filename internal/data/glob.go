package data

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/tree"
)

// pattern is a compiled pattern of paths.
type pattern struct {
	text string
	// parts are those of a glob; none where it is a path, a folder or all.
	parts []string
	// prefix is what every path begins with that it matches.
	prefix string
}

// compile reads a pattern: empty for all; a path, for what is there and below; or
// a glob, in which * and ? stand for characters other than slashes, [a-z] for one
// of them, a part ** for any number of folders, and \ takes a character's meaning.
func compile(text string) (*pattern, error) {
	text = strings.Trim(text, "/")
	p := &pattern{text: text}
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

// matches says whether a path is meant.
func (p *pattern) matches(name string) bool {
	if p.parts == nil {
		return p.text == "" || name == p.text || strings.HasPrefix(name, p.text+"/")
	}
	return matchParts(p.parts, strings.Split(name, "/"))
}

// matchParts walks both at once; at a ** it goes back to the last one and lets that
// take a part more, so that it costs no more than the product of their lengths.
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

// through is entries, for who goes through all of them.
func (p *pattern) through(ctx context.Context, trees *tree.Tree, root tree.Root) iter.Seq2[*tree.Entry, error] {
	return func(yield func(*tree.Entry, error) bool) {
		for e, err := range trees.Ahead(ctx, root, p.prefix, leavesAhead) {
			if err == nil && !p.matches(e.Path) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entries are all that a pattern matches, in order.
func (p *pattern) entries(ctx context.Context, trees *tree.Tree, root tree.Root) iter.Seq2[*tree.Entry, error] {
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
