package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// maxLine is how much of a line is held at once; a longer one is printed in
// pieces.
const maxLine = 1 << 20

// line is one line of output.
type line struct {
	at   time.Time
	text []byte
}

// lines reads lines of the form "<RFC3339Nano> <text>\n".
type lines struct {
	in   *bufio.Reader
	last time.Time
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line without its newline; io.EOF at the end. The text
// is the caller's.
func (l *lines) next() (line, error) {
	var text []byte
	for {
		piece, err := l.in.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(text) < maxLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return l.parse(text), nil
		case err == nil:
			return l.parse(text[:len(text)-1]), nil
		case len(text) > 0 && errors.Is(err, io.EOF):
			return l.parse(text), nil
		}
		return line{}, err
	}
}

// parse takes the time off a line. A piece without one belongs to the line
// before it.
func (l *lines) parse(text []byte) line {
	stamp, rest, found := bytes.Cut(text, []byte{' '})
	if !found {
		stamp, rest = text, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
		l.last = at
		return line{at: at, text: rest}
	}
	return line{at: l.last, text: text}
}

// cursor is how far a member's output has been read.
type cursor struct {
	at    time.Time
	count int
}

// pass is one reading that begins at a cursor: it decides which lines are new.
type pass struct {
	from cursor
	seen int
}

// fresh reports whether l has not been read yet, and moves the cursor past it.
func (p *pass) fresh(c *cursor, l line) bool {
	switch {
	case l.at.Before(p.from.at):
		return false
	case l.at.Equal(p.from.at):
		p.seen++
		if p.seen <= p.from.count {
			return false
		}
	}
	if l.at.Equal(c.at) {
		c.count++
	} else {
		*c = cursor{at: l.at, count: 1}
	}
	return true
}
