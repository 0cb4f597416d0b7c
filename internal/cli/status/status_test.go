package status

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func TestPauseIsShown(t *testing.T) {
	out := &bytes.Buffer{}
	o := &options{factory: connection.New(terminal.Streams{Out: out, NoColor: true}, "test")}
	report := Report{Alive: true, State: instance.State{Phase: instance.Ready, Started: time.Now()}}
	if err := o.print(report); err != nil || strings.Contains(out.String(), "paused") {
		t.Errorf("error %v, said:\n%s", err, out)
	}
	report.Paused = &standstill.Standstill{Who: "ada@box", Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local), Why: "new switches"}
	if err := o.print(report); err != nil {
		t.Fatal(err)
	}
	if want := "scheduling is paused since 2026-03-01 12:00 by ada@box: new switches (`muster unpause` ends it)"; !strings.Contains(out.String(), want) {
		t.Errorf("said:\n%swant %q", out, want)
	}
	text, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(text), `"paused":{"who":"ada@box","since":"2026-03-01T`) {
		t.Errorf("error %v, %s", err, text)
	}
}

// TestConsoleIsShown: every user of a shared machine reads where the console is, or why there is none.
func TestConsoleIsShown(t *testing.T) {
	for want, state := range map[string]instance.State{
		"console  http://localhost:649 (`muster console` signs you in)":           {Phase: instance.Ready, Console: "http://localhost:649"},
		"console  none: 127.0.0.1:649 is taken by another program: stop it first": {Phase: instance.Ready, NoConsole: "127.0.0.1:649 is taken by another program: stop it first"},
		"muster  Ready": {Phase: instance.Ready},
	} {
		out := &bytes.Buffer{}
		o := &options{factory: connection.New(terminal.Streams{Out: out, NoColor: true}, "test")}
		err := o.print(Report{Alive: true, State: public(state)})
		shown := state.Console != "" || state.NoConsole != ""
		if err != nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "console") != shown {
			t.Errorf("error %v, said:\n%swant %q", err, out, want)
		}
	}
}
