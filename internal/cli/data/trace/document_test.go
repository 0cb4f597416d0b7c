package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	plans "github.com/muster-dev/muster/internal/pipeline"
)

// TestMaking: of what was made, the code, the environment, the parameters and the command
// are told, with the datum that took so long.
func TestMaking(t *testing.T) {
	code := strings.Repeat("0123456789abcdef", 4)
	m := &Making{Pipeline: "digits", Stage: "train", Run: "digits-7", Datum: "/images"}
	m.tell(&plans.Recipe{Detail: map[string]string{
		"code/train.py": code, "environment/numpy": "2.3.1", "environment/python": "3.12.4", "env/RATE": "0.01", "secret/token/key": "4",
		"command/0": "python", "command/1": "train.py", "args/0": "--epochs", "args/1": "3", "script/0": "",
	}})
	want := &Making{
		Pipeline: "digits", Stage: "train", Run: "digits-7", Datum: "/images",
		Code: map[string]string{"train.py": code}, Environment: map[string]string{"numpy": "2.3.1", "python": "3.12.4"},
		Settings: map[string]string{"env/RATE": "0.01", "secret/token/key": "4"}, Command: []string{"python", "train.py", "", "--epochs", "3"},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	m.Command = []string{"python", "train.py"}
	lines := []string{
		"made by stage train of pipeline digits, run digits-7, 2h ago",
		"command: python train.py",
		"code: train.py 0123456789ab",
		"environment: numpy 2.3.1, python 3.12.4",
		"settings: env/RATE 0.01, secret/token/key 4",
	}
	if diff := cmp.Diff(lines, m.lines("2h ago")); diff != "" {
		t.Error(diff)
	}
	m.Record = &plans.Record{Seconds: 90, GPUs: 2, Where: "node-1", Started: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)}
	lines = append([]string{
		"made by stage train of pipeline digits, run digits-7",
		"datum /images: 1m 30s, 2 GPUs, on node-1, 2026-11-01 10:00:00 UTC",
	}, lines[1:]...)
	if diff := cmp.Diff(lines, m.lines("2h ago")); diff != "" {
		t.Error(diff)
	}
	m.Settings = map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": "", "h": ""}
	if got := m.lines(""); got[len(got)-1] != "settings: a, b, c, d, e, f, and 2 more (-o json)" {
		t.Errorf("many settings: %q", got)
	}
}
