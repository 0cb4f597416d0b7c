package excerpt

import (
	"io"
	"regexp"
	"strings"
	"unicode"
)

const (
	// looked is the number of bytes at the end of a log that [Ending] reads.
	looked = 16 << 10
	// endLines and endBytes bound an ending: its lines, and the bytes of each.
	endLines = 3
	endBytes = 200
	// traceback begins the report of an exception by Python.
	traceback = "Traceback (most recent call last)"
)

// escape is a control sequence of a terminal, such as a colour.
var escape = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|.)")

// Ending returns the last lines of a log with size bytes, joined by " | ": of the last exception
// that Python reports, else of the whole. Lines that begin with the name of a member and a bar are
// of that member: with a name, only its lines count, if it has any. It is empty for an empty or
// unreadable log.
func Ending(log io.ReaderAt, size int64, name string) string {
	text := make([]byte, min(size, looked))
	if n, err := log.ReadAt(text, size-int64(len(text))); n < len(text) && err != nil {
		return ""
	}
	all := strings.Split(string(text), "\n")
	if size > looked {
		all = all[1:] // the beginning of that line is missing
	}
	if own := linesOf(all, name); len(own) > 0 {
		all = own
	}
	var lines []string
	for _, line := range all {
		if strings.Contains(line, traceback) {
			lines = nil
		}
		if line = plain(line); line != "" {
			lines = append(lines, line)
		}
	}
	lines = exception(lines)
	return strings.Join(lines[max(0, len(lines)-endLines):], " | ")
}

// linesOf returns the lines of a member, without its name.
func linesOf(all []string, name string) (own []string) {
	if name == "" {
		return nil
	}
	for _, line := range all {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if text, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), "| "); ok {
			own = append(own, text)
		}
	}
	return own
}

// exception cuts lines that begin with a traceback behind the exception. Its line is the first
// one that is not indented.
func exception(lines []string) []string {
	if len(lines) == 0 || !strings.Contains(lines[0], traceback) {
		return lines
	}
	for i, line := range lines[1:] {
		if !strings.HasPrefix(line, " ") {
			return lines[:i+2]
		}
	}
	return lines
}

// plain returns a line without control characters, at most [endBytes] bytes of it. It leaves out
// text that a carriage return overwrote.
func plain(line string) string {
	line = strings.TrimRight(line, " \t\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	line = escape.ReplaceAllString(line, "")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(line, "?"))
	if len(line) > endBytes {
		line = strings.ToValidUTF8(line[:endBytes], "") + "..."
	}
	if strings.TrimSpace(line) == "" {
		return ""
	}
	return line
}
