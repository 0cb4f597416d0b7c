package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Streams are the three standard streams of a command.
type Streams struct {
	// In is standard input.
	In io.Reader
	// Out is where results go.
	Out io.Writer
	// Err is where everything that is not a result goes.
	Err io.Writer
	// NoColor forbids colour whatever the streams are.
	NoColor bool
	// Dumb says that the terminal knows no escape sequences at all.
	Dumb bool
}

// Standard returns the streams of this process. The environment variables
// NO_COLOR (set and not empty) and TERM=dumb forbid colour.
func Standard() Streams {
	dumb := os.Getenv("TERM") == "dumb"
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, NoColor: os.Getenv("NO_COLOR") != "" || dumb, Dumb: dumb}
}

// descriptor is anything with a file descriptor, such as *os.File.
type descriptor interface{ Fd() uintptr }

// Is reports whether stream, a reader or writer, is a terminal.
func Is(stream any) bool {
	file, ok := stream.(descriptor)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Size returns the columns and rows of the terminal that stream is, or false
// where it is none.
func Size(stream any) (columns, rows int, ok bool) {
	file, isFile := stream.(descriptor)
	if !isFile {
		return 0, 0, false
	}
	columns, rows, err := term.GetSize(int(file.Fd()))
	return columns, rows, err == nil && columns > 0
}

// Raw puts the terminal that stream is into raw mode: every key goes to the
// reader, none is interpreted. It returns the function that restores it, which
// may be called more than once.
func Raw(stream any) (restore func(), err error) {
	file, ok := stream.(descriptor)
	if !ok {
		return func() {}, nil
	}
	fd := int(file.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, state) }, nil
}

// OutStyle is the style for the standard output.
func (s Streams) OutStyle() Style {
	return Style{enabled: !s.NoColor && Is(s.Out), mark: markOf(s.Out)}
}

// ErrStyle is the style for the standard error.
func (s Streams) ErrStyle() Style {
	return Style{enabled: !s.NoColor && Is(s.Err), mark: markOf(s.Err)}
}
