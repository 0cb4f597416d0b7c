package glob

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Pattern is a glob, which cuts a tree into datums: each path that it matches is one, a folder with
// all that is below it.
//
// "/" is everything at once. * and ? stand for characters other than slashes, [a-z]
// and [!a-z] for one of them or one of the others, {a,b} for one of several, and \
// takes a character's meaning. Such a glob matches files and folders at one depth;
// with a slash at its end, folders alone. ** stands for any characters, and as a part
// for any number of folders: a glob with it matches files alone, at any depth. So no
// file is in two datums. Parts in
// parentheses can be referred to as $1, $2 and so on.
type Pattern struct {
	text string
	// all is "/": one datum that is everything.
	all bool
	// deep has ** in it; depth is otherwise how many parts a match has.
	deep  bool
	depth int
	// folders matches no files.
	folders bool
	match   *regexp.Regexp
	// pieces are what it begins with, as far as that is literal or in parentheses.
	pieces []piece
	groups int
}

// piece is literal text or, without, what is in the parentheses of a number.
type piece struct {
	literal string
	group   int
}

// Parse reads a glob. The leading slash may be left out; an empty one is "/".
func Parse(text string) (*Pattern, error) {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return nil, fmt.Errorf("glob %q is no text: write it in UTF-8, without NUL", text)
	}
	rest := strings.TrimPrefix(text, "/")
	g := &Pattern{text: "/" + rest, depth: 1}
	if rest == "" {
		g.all = true
		return g, nil
	}
	if cut, ok := strings.CutSuffix(rest, "/"); ok && !strings.HasSuffix(cut, `\`) {
		g.folders, rest = true, cut
	}
	p := &parser{glob: g, rest: rest, leading: true}
	p.out.WriteString(`(?s)^`)
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("glob %q: %w", text, err)
	}
	p.out.WriteString(`$`)
	match, err := regexp.Compile(p.out.String())
	if err != nil {
		return nil, fmt.Errorf("glob %q is too large or too deep: %w", text, err)
	}
	g.match, g.groups = match, p.groups
	return g, nil
}

// Everything is the glob "/".
func Everything() *Pattern { return &Pattern{text: "/", all: true} }

// Whole reports whether a glob is "/": everything is one datum.
func (g *Pattern) Whole() bool { return g.all }

// Deep reports whether a glob matches files at any depth.
func (g *Pattern) Deep() bool { return g.deep }

// String is the glob as it is written, with its leading slash.
func (g *Pattern) String() string { return g.text }

// Groups is how many parts in parentheses there are.
func (g *Pattern) Groups() int { return g.groups }

// Match says whether a path, of a folder or else of a file, is a datum. The values
// are those of the parts in parentheses.
func (g *Pattern) Match(path string, folder bool) (values []string, ok bool) {
	switch {
	case g.all:
		return nil, path == ""
	case path == "", folder && g.deep, !folder && g.folders:
		return nil, false
	case g.groups == 0:
		return nil, g.match.MatchString(path)
	}
	found := g.match.FindStringSubmatch(path)
	if found == nil {
		return nil, false
	}
	return found[1:], true
}

// Prefix is what every path begins with that it matches.
func (g *Pattern) Prefix() string { return g.PrefixOf(0, "") }

// PrefixOf is the prefix of those paths in which the part of one group has a value.
func (g *Pattern) PrefixOf(group int, value string) string {
	var b strings.Builder
	for _, p := range g.pieces {
		switch p.group {
		case 0:
			b.WriteString(p.literal)
		case group:
			b.WriteString(value)
		default:
			return b.String()
		}
	}
	return b.String()
}

// Datum is the path of the datum that an entry would belong to, and whether that
// is a folder; not ok where the entry is not as deep as any datum.
func (g *Pattern) Datum(entry string) (path string, folder, ok bool) {
	if g.all {
		return "", true, true
	}
	if g.deep {
		return entry, false, true
	}
	at := 0
	for range g.depth {
		if at > len(entry) {
			return "", false, false
		}
		cut := strings.IndexByte(entry[at:], '/')
		if cut < 0 {
			at = len(entry) + 1
			continue
		}
		at += cut + 1
	}
	if at > len(entry) {
		return entry, false, true
	}
	return entry[:at-1], true, true
}

// parser turns a glob into a regular expression.
type parser struct {
	glob *Pattern
	rest string
	out  strings.Builder
	// leading says that everything so far is literal or a group.
	leading bool
	open    []int // the groups that are open
	groups  int
	braces  int
	part    int // characters of the part that is being read
}

var errEnds = errors.New(`it ends with \: name the character that it is before`)

func (p *parser) parse() error {
	for p.rest != "" {
		r, size := utf8.DecodeRuneInString(p.rest)
		if strings.HasPrefix(p.rest[size:], "(") && strings.ContainsRune("@!+", r) {
			return fmt.Errorf(`%c( has no meaning: write \%c( for the character, and {a,b} for one of several`, r, r)
		}
		p.rest = p.rest[size:]
		if err := p.take(r); err != nil {
			return err
		}
	}
	switch {
	case len(p.open) > 0:
		return errors.New(`a parenthesis is not closed: close it, or write \(`)
	case p.braces > 0:
		return errors.New(`a brace is not closed: close it, or write \{`)
	case p.part == 0:
		return errors.New("it has an empty part: leave out slashes that are too many")
	}
	return nil
}

func (p *parser) take(r rune) error {
	if r != '/' {
		p.part++
	}
	switch r {
	case '\\':
		if p.rest == "" {
			return errEnds
		}
		next, size := utf8.DecodeRuneInString(p.rest)
		p.rest = p.rest[size:]
		return p.literal(next)
	case '*':
		return p.star()
	case '?':
		p.wild()
		p.out.WriteString(`[^/]`)
	case '[':
		p.wild()
		return p.class()
	case '(':
		return p.group()
	case ')':
		return p.endGroup()
	case '{', '}', ',':
		return p.brace(r)
	default:
		return p.literal(r)
	}
	return nil
}

// star reads * and **; a part ** is any number of folders, also none.
func (p *parser) star() error {
	p.wild()
	if !strings.HasPrefix(p.rest, "*") {
		p.out.WriteString(`[^/]*`)
		return nil
	}
	p.rest = strings.TrimLeft(p.rest, "*")
	p.glob.deep = true
	if p.glob.folders {
		return errors.New("** matches files alone: leave out the slash at the end")
	}
	if p.part == 1 && len(p.open) == 0 && strings.HasPrefix(p.rest, "/") {
		p.rest, p.part = p.rest[1:], 0
		p.out.WriteString(`(?:.*/)?`)
		return nil
	}
	p.out.WriteString(`.*`)
	return nil
}

// wild notes that what follows is not the beginning any more.
func (p *parser) wild() {
	if len(p.open) == 0 {
		p.leading = false
	}
}

func (p *parser) literal(r rune) error {
	if r == '/' {
		if p.braces > 0 {
			return errors.New("a slash within braces: write a pattern for each depth")
		}
		if p.part == 0 {
			return errors.New("it has an empty part: leave out slashes that are too many")
		}
		p.glob.depth++
		p.part = 0
	}
	p.out.WriteString(regexp.QuoteMeta(string(r)))
	if !p.leading || len(p.open) > 0 {
		return nil
	}
	if n := len(p.glob.pieces); n > 0 && p.glob.pieces[n-1].group == 0 {
		p.glob.pieces[n-1].literal += string(r)
		return nil
	}
	p.glob.pieces = append(p.glob.pieces, piece{literal: string(r)})
	return nil
}

func (p *parser) group() error {
	if p.braces > 0 {
		return errors.New("a parenthesis within braces: put the braces within the parentheses")
	}
	p.groups++
	if p.groups > 9 {
		return errors.New("more than 9 parts in parentheses: $1 to $9 can be referred to")
	}
	if p.leading && len(p.open) == 0 {
		p.glob.pieces = append(p.glob.pieces, piece{group: p.groups})
	}
	p.open = append(p.open, p.groups)
	p.out.WriteString(`(`)
	return nil
}

func (p *parser) endGroup() error {
	if len(p.open) == 0 || p.braces > 0 {
		return errors.New(`a parenthesis is closed that is not open: write \)`)
	}
	p.open = p.open[:len(p.open)-1]
	p.out.WriteString(`)`)
	return nil
}

func (p *parser) brace(r rune) error {
	switch {
	case r == ',' && p.braces == 0:
		return p.literal(r)
	case r == ',':
		p.out.WriteString(`|`)
	case r == '{':
		p.wild()
		p.braces++
		p.out.WriteString(`(?:`)
	case p.braces == 0:
		return errors.New(`a brace is closed that is not open: write \}`)
	default:
		p.braces--
		p.out.WriteString(`)`)
	}
	return nil
}

// class reads what stands between brackets.
func (p *parser) class() error {
	not := false
	if p.rest != "" && (p.rest[0] == '!' || p.rest[0] == '^') {
		not, p.rest = true, p.rest[1:]
	}
	var b strings.Builder
	for first := true; ; first = false {
		lo, end, err := p.classRune()
		if err != nil {
			return err
		}
		if end && !first {
			break
		}
		hi := lo
		if len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != ']' {
			p.rest = p.rest[1:]
			if hi, _, err = p.classRune(); err != nil {
				return err
			}
		}
		if hi < lo {
			return fmt.Errorf("%c-%c in brackets: the first has to be before the second", lo, hi)
		}
		if !not && lo < '/' && '/' < hi { // a slash is never meant
			span(&b, lo, '/'-1)
			lo = '/' + 1
		}
		if lo == '/' || hi == '/' {
			return errors.New("a slash in brackets: no part of a path has one")
		}
		span(&b, lo, hi)
	}
	if not {
		p.out.WriteString(`[^/` + b.String() + `]`)
		return nil
	}
	p.out.WriteString(`[` + b.String() + `]`)
	return nil
}

// classRune is the next character in brackets; end says that it closes them.
func (p *parser) classRune() (r rune, end bool, err error) {
	if p.rest == "" {
		return 0, false, errors.New(`a bracket is not closed: close it, or write \[`)
	}
	r, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	if r != '\\' {
		return r, r == ']', nil
	}
	if p.rest == "" {
		return 0, false, errEnds
	}
	r, size = utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	return r, false, nil
}

// span writes a range of characters as regular expressions have it.
func span(b *strings.Builder, lo, hi rune) {
	fmt.Fprintf(b, `\x{%x}-\x{%x}`, lo, hi)
}
