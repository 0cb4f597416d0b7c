package terminal

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// rule names the characters that a filter lets through beside printable ones, newlines and tabs.
type rule int

const (
	// plain lets nothing else through.
	plain rule = iota
	// coloured lets colours through (CSI … m).
	coloured
	// lively lets through the sequences of progress bars: colours, carriage returns,
	// backspaces, and CSI K, which clears a part of the line.
	lively
)

const (
	escape = 0x1b
	// maxParameters is the longest text between "CSI" and its last character, in
	// bytes: more than the colours of text and background in 24 bits.
	maxParameters = 64
)

// filter makes text that others wrote harmless for a terminal. It replaces each
// control character, each invisible character that changes the order of the text
// (Unicode's bidirectional controls) and the beginning of each sequence that its
// rule does not name by its number in Go's notation, such as \x1b. Invalid UTF-8
// becomes U+FFFD.
type filter struct {
	rule rule
	// mark is the first parameter of the colours that the program itself writes; the
	// filter removes it. None where it is empty.
	mark string
	// held is the beginning of a sequence or of a character whose rest has not come.
	held []byte
}

// append filters text, which goes on where the text before ended.
func (f *filter) append(out, text []byte) []byte {
	if len(f.held) > 0 {
		text = append(f.held, text...)
		f.held = nil
	}
	for len(text) > 0 {
		if n := harmless(text); n > 0 {
			out, text = append(out, text[:n]...), text[n:]
			continue
		}
		shown, size := f.next(text)
		if size == 0 {
			f.held = bytes.Clone(text)
			return out
		}
		out, text = append(out, shown...), text[size:]
	}
	return out
}

// end filters the held bytes: the text ends here.
func (f *filter) end(out []byte) []byte {
	text := f.held
	f.held = nil
	for len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		out, text = append(out, shown(text[:size])...), text[size:]
	}
	return out
}

// harmless is the length of the ASCII text before anything that needs a look.
func harmless(text []byte) int {
	for i, b := range text {
		if b >= utf8.RuneSelf || b < ' ' && b != '\n' && b != '\t' || b == 0x7f {
			return i
		}
	}
	return len(text)
}

// next filters one character or sequence; a size of 0 means that its rest is missing.
func (f *filter) next(text []byte) (out []byte, size int) {
	switch {
	case text[0] == escape:
		return f.sequence(text)
	case f.rule == lively && (text[0] == '\r' || text[0] == '\b'):
		return text[:1], 1
	case text[0] == '\r' && len(text) == 1:
		return nil, 0
	case text[0] == '\r' && text[1] == '\n':
		return text[:2], 2
	case !utf8.FullRune(text):
		return nil, 0
	}
	_, size = utf8.DecodeRune(text)
	return shown(text[:size]), size
}

// sequence filters a text that begins with ESC.
func (f *filter) sequence(text []byte) (out []byte, size int) {
	refused := shown(text[:1])
	end := 2
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == ';' || text[end] == ':') {
		end++
	}
	switch {
	case len(text) > 1 && text[1] != '[', end-2 > maxParameters, f.rule == plain && f.mark == "":
		return refused, 1
	case end >= len(text):
		return nil, 0
	}
	own, isOwn := bytes.CutPrefix(text[2:end], []byte(f.mark+";"))
	switch {
	case text[end] == 'm' && isOwn && f.mark != "":
		return fmt.Appendf(nil, "\x1b[%sm", own), end + 1
	case text[end] == 'm' && f.rule >= coloured, text[end] == 'K' && f.rule == lively:
		return text[:end+1], end + 1
	}
	return refused, 1
}

// shown is a character, or its number where a terminal would obey it or would not
// show it.
func shown(char []byte) []byte {
	r, size := utf8.DecodeRune(char)
	switch {
	case r == utf8.RuneError && size < 2:
		return []byte("\uFFFD")
	case !Hidden(r):
		return char
	case r == '\r':
		return []byte(`\r`)
	case r < utf8.RuneSelf:
		return fmt.Appendf(nil, `\x%02x`, r)
	case r < 0x10000:
		return fmt.Appendf(nil, `\u%04x`, r)
	}
	return fmt.Appendf(nil, `\U%08x`, r)
}

// Hidden reports whether a terminal obeys r or does not show it: controls, format characters,
// separators of lines and paragraphs, noncharacters. Joiners are not hidden: emoji, Persian and
// Indian scripts need them. Visible format characters are not hidden either.
func Hidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r == nonJoiner, r == joiner, unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point)
}

// Clean returns text that others wrote as a terminal can show it: see [Guard].
func Clean(text string) string { return clean(plain, text) }

// Colours is Clean that lets colours through: for text that has a place in a line.
func Colours(text string) string { return clean(coloured, text) }

func clean(r rule, text string) string {
	if harmless([]byte(text)) == len(text) {
		return text
	}
	f := filter{rule: r}
	return string(f.end(f.append(nil, []byte(text))))
}
