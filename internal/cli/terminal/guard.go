package terminal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"sync"
)

// Guard is a stream for people. Other users write names, messages and labels, and a
// terminal obeys sequences in them. So a guard writes control characters as text, such
// as \x1b. It does so also in pipes, because pagers pass sequences on. The colours of
// [Style] pass, because only this process knows their mark.
type Guard struct {
	mu     sync.Mutex
	out    io.Writer
	filter filter
	// data is the one stream of [Data], so that Flush reaches the bytes that it holds back.
	data *Guard
}

// Guarded returns the streams with guards on standard output and standard error.
// Output for programs goes to [Data] or [Bare] of a stream.
func (s Streams) Guarded() Streams {
	mark := newMark()
	s.Out, s.Err = newGuard(s.Out, mark), newGuard(s.Err, mark)
	return s
}

func newGuard(out io.Writer, mark string) *Guard {
	return &Guard{out: out, filter: filter{mark: mark}, data: &Guard{out: out, filter: filter{rule: lively, mark: mark}}}
}

// newMark returns a random number that no other process can guess.
func newMark() string {
	var number [8]byte
	_, _ = rand.Read(number[:]) // never fails
	return strconv.FormatUint(binary.BigEndian.Uint64(number[:]), 10)
}

// Write implements io.Writer. It holds back a sequence or a character until the next
// write brings its end.
func (g *Guard) Write(text []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(text), g.put(g.filter.append(nil, text))
}

// flush writes the held bytes at the end of the text.
func (g *Guard) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.put(g.filter.end(nil))
}

// end writes the bytes that a guard of [Streams] and its stream of data hold back.
func (g *Guard) end() error {
	if g.data == nil {
		return g.flush()
	}
	return errors.Join(g.flush(), g.data.flush())
}

func (g *Guard) put(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := g.out.Write(text)
	return err
}

// Fd returns the descriptor of the stream behind the guard, or none. So [Is] finds a
// terminal also behind a guard.
func (g *Guard) Fd() uintptr {
	if file, ok := g.out.(descriptor); ok {
		return file.Fd()
	}
	return ^uintptr(0)
}

// Flush writes the bytes that guards hold back, at the end of a command.
func (s Streams) Flush() {
	for _, stream := range []io.Writer{s.Out, s.Err} {
		if g, ok := stream.(*Guard); ok {
			_ = g.end()
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

// Data returns the stream for the data of programs: files, the output of jobs,
// documents. A file or a pipe gets it unchanged. A terminal gets it with colours,
// carriage returns, backspaces and cleared lines, as progress bars need them, and with
// all other control characters as text.
func Data(stream io.Writer) io.Writer {
	g, ok := stream.(*Guard)
	switch {
	case !ok, g.data == nil: // a stream of Data itself
		return stream
	case !Is(g.out):
		return g.out
	}
	return g.data
}

// markOf returns the mark of the colours that a stream lets through.
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
