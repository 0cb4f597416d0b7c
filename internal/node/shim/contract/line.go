package contract

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Stream is where a piece of output came from.
type Stream string

// The streams. A terminal has one.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// FragmentLimit is the longest text of one entry, in bytes. Longer lines take
// several entries.
const FragmentLimit = 16 << 10

// stampLayout is RFC3339Nano with all its digits, so that stamps sort as text.
const stampLayout = "2006-01-02T15:04:05.000000000Z07:00"

// Entry is one line of a log file: "<time> <stream> <F|P> <text>".
type Entry struct {
	// Time is when the shim read the text.
	Time time.Time
	// Stream is where it came from.
	Stream Stream
	// Partial says that the line goes on in the stream's next entry.
	Partial bool
	// Text is the output, without its line feed.
	Text []byte
}

// AppendEntry appends e as one line of a log file.
func AppendEntry(dst []byte, e Entry) []byte {
	dst = e.Time.UTC().AppendFormat(dst, stampLayout)
	return appendTail(dst, e.Stream, e.Partial, e.Text)
}

func appendTail(dst []byte, stream Stream, partial bool, text []byte) []byte {
	dst = append(dst, ' ')
	dst = append(dst, stream...)
	if partial {
		dst = append(dst, " P "...)
	} else {
		dst = append(dst, " F "...)
	}
	dst = append(dst, text...)
	return append(dst, '\n')
}

// ParseEntry reads one line of a log file, given without its line feed. The
// text is a part of line. It answers false to what is no entry, such as a line
// that a full disk has cut short.
func ParseEntry(line []byte) (Entry, bool) {
	stamp, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok {
		return Entry{}, false
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || len(rest) < 2 || rest[1] != ' ' || (rest[0] != 'F' && rest[0] != 'P') {
		return Entry{}, false
	}
	e := Entry{Partial: rest[0] == 'P', Text: rest[2:]}
	switch string(stream) {
	case string(Stdout):
		e.Stream = Stdout
	case string(Stderr):
		e.Stream = Stderr
	default:
		return Entry{}, false
	}
	var err error
	if e.Time, err = time.Parse(time.RFC3339Nano, string(stamp)); err != nil {
		return Entry{}, false
	}
	return e, true
}

// Framer cuts one stream's bytes into entries.
type Framer struct {
	// Stream is written into each entry.
	Stream Stream
	held   []byte
}

// Append appends entries for the lines that data completes, and for fragments
// of lines that are too long for one entry. It holds back the rest.
func (f *Framer) Append(dst []byte, now time.Time, data []byte) []byte {
	var room [len(stampLayout)]byte
	stamp := now.UTC().AppendFormat(room[:0], stampLayout)
	for len(data) > 0 {
		line, rest, complete := bytes.Cut(data, []byte{'\n'})
		if len(f.held)+len(line) > FragmentLimit {
			n := FragmentLimit - len(f.held)
			f.held = append(f.held, line[:n]...)
			dst = append(dst, stamp...)
			dst = appendTail(dst, f.Stream, true, f.held)
			f.held = f.held[:0]
			data = data[n:]
			continue
		}
		if !complete {
			f.held = append(f.held, line...)
			break
		}
		text := line
		if len(f.held) > 0 {
			f.held = append(f.held, line...)
			text = f.held
		}
		dst = append(dst, stamp...)
		dst = appendTail(dst, f.Stream, false, text)
		f.held = f.held[:0]
		data = rest
	}
	return dst
}

// Holding says whether a line's beginning is held back.
func (f *Framer) Holding() bool { return len(f.held) > 0 }

// Flush appends what is held back as a partial entry.
func (f *Framer) Flush(dst []byte, now time.Time) []byte {
	if len(f.held) == 0 {
		return dst
	}
	dst = AppendEntry(dst, Entry{Time: now, Stream: f.Stream, Partial: true, Text: f.held})
	f.held = f.held[:0]
	return dst
}

// LogName is the name of the n-th log file, from 1. Names sort as numbers do
// until the files are a hundred million.
func LogName(n int) string { return fmt.Sprintf("%08d.log", n) }

// LogNumber is the reverse of LogName. 0: not the name of a log file.
func LogNumber(name string) int {
	digits, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 {
		return 0
	}
	return n
}
