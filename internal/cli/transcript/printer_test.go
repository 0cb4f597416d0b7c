package transcript

import (
	"bytes"
	"testing"

	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestPrinterKeepsNames: on a terminal no member's output takes the name before it away.
func TestPrinterKeepsNames(t *testing.T) {
	one, two := member.Member{Role: "worker", Index: 0}, member.Member{Role: "worker", Index: 1}
	text := "50%\r100%\x1b[32m|\x1b[0m\x1b[2K\x1b[A\b\b\b\bworker-1 | I am the other\r"
	for _, c := range []struct {
		name   string
		guards bool
		want   string
	}{
		{"terminal", true, "worker-0 | 100%\x1b[32m|\x1b[0m" + `\x1b[2K\x1b[A\x08\x08\x08\x08worker-1 | I am the other` + "\n"},
		{"pipe", false, "worker-0 | 100%\x1b[32m|\x1b[0m\x1b[2K\x1b[A\b\b\b\bworker-1 | I am the other\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			p := NewPrinter(&out, terminal.Coloured(false), []member.Member{one, two}, false)
			p.guards = c.guards
			if err := p.print(one, line{text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("printed %q, want %q", out.String(), c.want)
			}
		})
	}
}
