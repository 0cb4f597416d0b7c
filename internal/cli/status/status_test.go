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
