//go:build linux

package fetcher

import (
	"bytes"
	"log/slog"
)

const (
	// mostSaid bounds the lines that one process may write to the agent's log, and longestLine
	// the bytes of each.
	mostSaid, longestLine = 200, 4096
)

// logWriter logs the lines that the process writes. It is for one goroutine.
type logWriter struct {
	log   *slog.Logger
	begun []byte
	lines int
}

// Write implements [io.Writer]. It never fails: the process would end.
func (s *logWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && s.lines < mostSaid {
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		s.begun = append(s.begun, line[:min(len(line), longestLine-len(s.begun))]...)
		p = rest
		if !ends {
			break
		}
		s.lines++
		s.log.Warn("the fetcher says", "line", printable(string(s.begun)))
		s.begun = s.begun[:0]
		if s.lines == mostSaid {
			s.log.Warn("the fetcher says more, which is left out")
		}
	}
	return n, nil
}
