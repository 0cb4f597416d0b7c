package main

import (
	"bytes"
	"io"
)

// labelled writes a label at the beginning of each line, so that suites that run at the same
// time can write to one terminal.
type labelled struct {
	to    io.Writer
	label string
	// within is true after a write that did not end its line.
	within bool
}

// Write writes p in one piece. It returns len(p) unless it fails.
func (l *labelled) Write(p []byte) (int, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(p) {
		if !l.within {
			out.WriteString(l.label)
		}
		out.Write(line)
		l.within = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := l.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}
