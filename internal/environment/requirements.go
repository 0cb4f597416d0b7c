package environment

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxRequirements is the size, in bytes, of the longest requirements file that
// is read.
const maxRequirements = 1 << 20

// Normalise reads a requirements file as pip does, and writes it anew: one
// requirement or option a line, in order (the order of indexes counts), without
// comments, in ASCII. It accepts a known grammar only, and so refuses all lines
// that make pip read files or variables of the machine that builds. pip gets only the
// text that Normalise returns, never the text that a person wrote.
func Normalise(text string) (string, error) {
	if len(text) > maxRequirements {
		return "", fmt.Errorf("the requirements have %d bytes, and %d are allowed: leave some out, or put the packages into an image", len(text), maxRequirements)
	}
	if !utf8.ValidString(text) {
		return "", errors.New("the requirements are not UTF-8: save the file as UTF-8")
	}
	var out strings.Builder
	for _, l := range joinLines(splitLines(strings.TrimPrefix(text, "\ufeff"))) {
		content := strings.TrimSpace(comment.ReplaceAllString(l.text, ""))
		if content == "" {
			continue
		}
		if l.open {
			return "", fmt.Errorf("requirements, line %d: the last line ends in a backslash, so it goes on, but nothing follows", l.number)
		}
		written, err := rewrite(content)
		if err != nil {
			return "", fmt.Errorf("requirements, line %d: %w", l.number, err)
		}
		out.WriteString(written + "\n")
	}
	return out.String(), nil
}

// comment matches a comment of pip: a "#" inside a word begins none.
var comment = regexp.MustCompile(`(^|\s+)#.*$`)

// logical is one line of a requirements file, with the lines that continue it.
type logical struct {
	number int // of its last physical line
	text   string
	open   bool // the file ends where the line should go on
}

// splitLines splits a text where Python's str.splitlines does.
func splitLines(text string) []string {
	var lines []string
	begin := 0
	for at, r := range text {
		switch r {
		case '\n':
			if at > 0 && text[at-1] == '\r' {
				begin = at + 1 // the '\r' ended the line
				continue
			}
		case '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		default:
			continue
		}
		lines = append(lines, text[begin:at])
		begin = at + utf8.RuneLen(r)
	}
	return append(lines, text[begin:])
}

// joinLines joins lines that end in backslashes with their next lines, as pip does: a
// comment ends a continued line, and a backslash continues no comment.
func joinLines(lines []string) []logical {
	var out []logical
	var joined strings.Builder
	for i, text := range lines {
		note := strings.HasPrefix(strings.TrimSpace(text), "#")
		if strings.HasSuffix(text, `\`) && !note {
			joined.WriteString(strings.Trim(text, `\`))
			continue
		}
		if note {
			text = " " + text
		}
		out = append(out, logical{number: i + 1, text: joined.String() + text})
		joined.Reset()
	}
	if joined.Len() > 0 {
		out = append(out, logical{number: len(lines), text: joined.String(), open: true})
	}
	return out
}

// rewrite checks one line, which is not empty, and writes it anew.
func rewrite(text string) (string, error) {
	for _, r := range text {
		if r > '~' || r < ' ' && r != '\t' {
			return "", fmt.Errorf("%q has the character %U: outside of comments only ASCII is allowed; write addresses with %%, such as %%C3%%A9", Mask(text), r)
		}
	}
	if strings.Contains(text, "${") {
		return "", fmt.Errorf("%q refers to a variable of the machine that builds; write its value", Mask(text))
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	if strings.HasPrefix(words[0], "-") {
		return rewriteOption(words)
	}
	return rewriteRequirement(words)
}

var address = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'"]+`)

// Mask takes passwords and tokens out of the addresses in a text, so that it
// may be logged and shown.
func Mask(text string) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		u, err := url.Parse(found)
		if err != nil {
			scheme, rest, _ := strings.Cut(found, "://")
			if i := strings.LastIndexByte(rest, '@'); i >= 0 {
				return scheme + "://****" + rest[i:]
			}
			return found
		}
		if u.User == nil {
			return found
		}
		scheme, rest, _ := strings.Cut(found, "://")
		host := rest
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			host = rest[:i]
		}
		// A password may have an @ in it.
		return scheme + "://****" + rest[strings.LastIndexByte(host, '@'):]
	})
}
