package terminal

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"strconv"
	"sync"
)

// Guard is a stream for people. Names, messages and labels come from others, and a
// terminal obeys what is in them: so a guard writes control characters as text, such
// as \x1b, whether or not the stream is a terminal, since pagers are between. The
// colours of [Style] pass, because only this process knows their mark.
type Guard struct {
	mu     sync.Mutex
	out    io.Writer
	filter filter
}

// Guarded returns the streams with guards on standard output and standard error.
// What is not for people goes to [Data] or [Bare] of a stream.
func (s Streams) Guarded() Streams {
	mark := newMark()
	s.Out = &Guard{out: s.Out, filter: filter{mark: mark}}
	s.Err = &Guard{out: s.Err, filter: filter{mark: mark}}
	return s
}

// newMark is a number that others do not guess.
func newMark() string {
	var number [8]byte
	_, _ = rand.Read(number[:]) // never fails
	return strconv.FormatUint(binary.BigEndian.Uint64(number[:]), 10)
}

// Write implements io.Writer. It holds back a sequence or a character whose end has
// not come.
func (g *Guard) Write(text []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(text), g.put(g.filter.append(nil, text))
}

// flush writes what was held back: nothing more will come.
func (g *Guard) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.put(g.filter.end(nil))
}

func (g *Guard) put(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := g.out.Write(text)
	return err
}

// Fd is the descriptor of the stream behind the guard, or none. So a terminal is one
// also behind a guard.
func (g *Guard) Fd() uintptr {
	if file, ok := g.out.(descriptor); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}

// Flush writes what guards have held back, at the end of a command.
func (s Streams) Flush() {
	for _, stream := range []io.Writer{s.Out, s.Err} {
		if g, ok := stream.(*Guard); ok {
			_ = g.flush()
		}
	}
}

// Bare returns the stream behind a guard: for interactive sessions, for programs
// that this one starts, and for the movements of the cursor in this package.
func Bare(stream io.Writer) io.Writer {
	if g, ok := stream.(*Guard); ok {
		return g.out
	}
	return stream
}

// Data returns the stream for what programs wrote or read: files, the output of jobs,
// documents. A file or a pipe gets it unchanged. A terminal gets it with colours,
// carriage returns, backspaces and cleared lines, as progress bars need them, and with
// all other control characters as text.
func Data(stream io.Writer) io.Writer {
	g, ok := stream.(*Guard)
	switch {
	case !ok:
		return stream
	case !Is(g.out):
		return g.out
	}
	return &Guard{out: g.out, filter: filter{rule: lively, mark: g.filter.mark}}
}

// markOf is the mark of the colours that a stream lets through.
func markOf(stream io.Writer) string {
	if g, ok := stream.(*Guard); ok {
		return g.filter.mark
	}
	return ""
}

// filtered is a page for a screen as the guard of its stream would write it.
func filtered(stream io.Writer, text string) string {
	f := filter{mark: markOf(stream)}
	if f.mark == "" {
		f.rule = coloured
	}
	return string(f.end(f.append(nil, []byte(text))))
}
