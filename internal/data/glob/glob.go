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
	// parts are those of a glob; none where it is a path, a folder or all.
	parts []string
	// prefix is what every path begins with that it matches.
	prefix string
}

// Compile reads a pattern: empty for all; a path, for what is there and below; or
// a glob, in which * and ? stand for characters other than slashes, [a-z] for one
// of them, a part ** for any number of folders, and \ takes a character's meaning.
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

// matches says whether a path is meant.
func (p *Pattern) matches(name string) bool {
	if p.parts == nil {
		return p.Text == "" || name == p.Text || strings.HasPrefix(name, p.Text+"/")
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

// Through is entries, for who goes through all of them; so many nodes of the tree are
// read ahead.
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

// Entries are all that a pattern matches, in order.
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
