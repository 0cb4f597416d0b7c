package transcript

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Printer prints lines of several members, each after its member's name.
type Printer struct {
	mu         sync.Mutex
	out        io.Writer
	style      terminal.Style
	width      int
	prefixed   bool
	guards     bool
	timestamps bool
	order      map[member.Member]int
	buffer     bytes.Buffer
}

// NewPrinter returns a printer for these members. A single one needs no name
// before its lines. With timestamps, every line begins with its time. Out gets the
// lines as [terminal.Data] does.
func NewPrinter(out io.Writer, style terminal.Style, members []member.Member, timestamps bool) *Printer {
	p := &Printer{out: terminal.Data(out), guards: terminal.Is(out), style: style, prefixed: len(members) > 1, timestamps: timestamps, order: map[member.Member]int{}}
	for i, m := range members {
		p.order[m] = i
		p.width = max(p.width, len(m.String()))
	}
	return p
}

// print writes one line.
func (p *Printer) print(m member.Member, l line) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer.Reset()
	text := l.text
	if p.prefixed {
		name := m.String()
		p.buffer.WriteString(p.style.Paint(terminal.Member(p.order[m]), name+strings.Repeat(" ", max(0, p.width-len(name)))+" |"))
		p.buffer.WriteByte(' ')
		// What a carriage return overwrites would take the name with it.
		text = bytes.TrimRight(text, "\r")
		text = text[bytes.LastIndexByte(text, '\r')+1:]
		if p.guards {
			// So would backspaces and a cleared line.
			text = []byte(terminal.Colours(string(text)))
		}
	}
	if p.timestamps {
		p.buffer.WriteString(l.at.Local().Format(time.RFC3339Nano))
		p.buffer.WriteByte(' ')
	}
	p.buffer.Write(text)
	p.buffer.WriteByte('\n')
	_, err := p.out.Write(p.buffer.Bytes())
	return err
}
