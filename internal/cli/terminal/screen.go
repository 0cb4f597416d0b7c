package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Screen shows one page after another in the same place of a terminal. The
// cursor is hidden from the first page until [Screen.Close].
type Screen struct {
	out  io.Writer
	open bool
}

// NewScreen returns a screen on out, which must be a terminal that knows
// escape sequences. Nothing is written yet.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

// Draw replaces what is shown by page. What is wider or higher than the
// terminal is cut off, and how many lines that were is said.
func (s *Screen) Draw(page string) error {
	columns, rows, ok := Size(s.out)
	page = filtered(s.out, page)
	if !ok {
		columns, rows = 80, 24
	}
	var text strings.Builder
	if !s.open {
		text.WriteString("\x1b[?25l\x1b[2J")
	}
	s.open = true
	text.WriteString("\x1b[H")
	for _, line := range fitPage(page, columns, rows) {
		// Each line is overwritten and its rest cleared: clearing everything
		// first would flicker.
		text.WriteString(line + "\x1b[K\r\n")
	}
	text.WriteString("\x1b[J")
	_, err := io.WriteString(Bare(s.out), text.String())
	return err
}

// Close brings the cursor back, below the last page. It may be called more
// than once.
func (s *Screen) Close() {
	if !s.open {
		return
	}
	s.open = false
	// The line may hold the ^C that the terminal echoed.
	_, _ = io.WriteString(Bare(s.out), "\r\x1b[K\x1b[?25h")
}

// fitPage returns the page's lines, cut to a terminal's size. The last row
// stays free: the cursor is there.
func fitPage(page string, columns, rows int) []string {
	lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
	if room := max(rows-1, 1); len(lines) > room {
		left := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], fmt.Sprintf("%s %d more lines: make the window higher", ellipsis, left))
	}
	for i, line := range lines {
		lines[i] = clip(line, columns)
	}
	return lines
}

// clip cuts a line after so many columns. Colours take no room, and stay
// as they are at the cut.
func clip(line string, columns int) string {
	var kept strings.Builder
	shown := 0
	for len(line) > 0 {
		if strings.HasPrefix(line, "\x1b[") {
			if end := strings.IndexByte(line, 'm'); end >= 0 {
				kept.WriteString(line[:end+1])
				line = line[end+1:]
				continue
			}
		}
		r, size := utf8.DecodeRuneInString(line)
		shown += columnsOfRune(r)
		if shown <= columns {
			kept.WriteString(line[:size])
		}
		line = line[size:]
	}
	return kept.String()
}
