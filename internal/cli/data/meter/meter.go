// Package meter shows people how far reading and writing data has come.
//
// It must not know which command that is.
package meter

import (
	"io"
	"sync"

	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
)

// Meter is a bar, or a line now and then, with rate and time left. It must be
// ended with [Meter.Stop].
type Meter struct {
	bar *terminal.Progress

	mu sync.Mutex
	// before is what was done before the part that goes on now, last what is
	// done of that.
	before, last data.Progress
	// expected is how many bytes there are in all parts; 0: unknown.
	expected int64
}

// New starts one on out.
func New(out io.Writer, title string) *Meter {
	return &Meter{bar: terminal.NewPaced(out, title, terminal.Bytes)}
}

// See shows what is done of a part; it is a data.Progress function.
func (m *Meter) See(p data.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = p
	total := m.expected
	if total == 0 && p.TotalBytes > 0 {
		total = m.before.Bytes + p.TotalBytes
	}
	m.bar.Set(m.before.Bytes+p.Bytes, total)
	m.bar.Say(terminal.Count(m.before.Files+p.Files, "file"))
}

// Expect says how many bytes there are in all parts, once that is known.
func (m *Meter) Expect(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expected = bytes
}

// Next says that a part is done: what comes is counted on top.
func (m *Meter) Next() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before.Files += m.last.Files
	m.before.Bytes += m.last.Bytes
	m.last = data.Progress{}
}

// Done is what has been done, in all parts.
func (m *Meter) Done() data.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return data.Progress{Files: m.before.Files + m.last.Files, Bytes: m.before.Bytes + m.last.Bytes}
}

// Stop takes it off the screen. It may be called more than once.
func (m *Meter) Stop() { m.bar.Stop() }
