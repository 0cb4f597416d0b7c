package up

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
)

// settled returns the decisions of one start, by the flags of the command itself. A start that is
// not refused becomes ready.
func settled(t *testing.T, home instance.Home, args ...string) (start, error) {
	t.Helper()
	cmd := New(&connection.Factory{})
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	o := &options{}
	for flag, value := range map[string]*string{"config": &o.config, "tier": &o.tier, "simulate-gpus": &o.simulate, "containerd": &o.socket, "guard": &o.guard} {
		*value = cmd.Flags().Lookup(flag).Value.String()
	}
	s, err := o.settle(cmd.Flags(), home)
	if err == nil {
		err = home.WriteChoices(s.choices)
	}
	return s, err
}

// TestAsLastTime: a start without flags gives the machine of the last start; a flag that is given
// wins, then the configuration file, and notes tell the user.
func TestAsLastTime(t *testing.T) {
	const head = "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\n"
	type step struct {
		args string
		// file is config.yaml from this start on.
		file string
		// tier, gpus, containerd are the values that count; empty: the default.
		tier, gpus, containerd string
		guard                  string
		note                   string
	}
	const both = "--tier plain --simulate-gpus 2xA100"
	for name, steps := range map[string][]step{
		"nothing asked for":         {{}, {}},
		"again and again":           {{args: both, tier: "plain", gpus: "2xA100"}, {tier: "plain", gpus: "2xA100", note: "as last time: " + both + " "}, {tier: "plain", gpus: "2xA100", note: "--tier auto --simulate-gpus none resets it"}},
		"one flag changes":          {{args: both, tier: "plain", gpus: "2xA100"}, {args: "--simulate-gpus 4xH100", tier: "plain", gpus: "4xH100", note: "as last time: --tier plain ("}, {tier: "plain", gpus: "4xH100", note: "--simulate-gpus 4xH100"}},
		"given up":                  {{args: both, tier: "plain", gpus: "2xA100"}, {args: "--tier auto --simulate-gpus none"}, {}},
		"given up by an empty flag": {{args: both, tier: "plain", gpus: "2xA100"}, {args: "--tier auto --simulate-gpus="}, {}},
		"containerd":                {{args: "--containerd none", containerd: "none"}, {containerd: "none", note: "as last time: --containerd none (another value of a flag replaces it)"}, {args: "--containerd /run/containerd/containerd.sock"}, {}},
		"the guard":                 {{args: "--guard", guard: "gpus"}, {guard: "gpus", note: "as last time: --guard=gpus (another value of a flag replaces it; --guard=none resets it)"}, {args: "--guard=compute", guard: "compute"}, {args: "--guard=none"}, {}},
		"the guard in the file":     {{args: "--guard", guard: "gpus"}, {file: "guard: {devices: none}\n", note: `not as last time: the configuration file has guard: devices: "none", the last start had --guard=gpus`}},
		"the file wins over last time": {
			{args: both, tier: "plain", gpus: "2xA100"},
			{file: "tier: isolated\n", tier: "isolated", gpus: "2xA100", note: `not as last time: the configuration file has tier: "isolated", the last start had --tier plain`},
			{file: "{}\n", gpus: "2xA100", note: "as last time: --simulate-gpus 2xA100 ("},
		},
		"auto in the file wins":      {{args: both, tier: "plain", gpus: "2xA100"}, {file: "tier: auto\nsimulateGPUs: none\n", note: `simulateGPUs: "none"`}},
		"a flag wins over the file":  {{file: "tier: isolated\n", args: "--tier plain", tier: "plain"}, {tier: "isolated", note: "not as last time"}, {tier: "isolated"}},
		"the file alone is followed": {{file: "simulateGPUs: 8xA100\n", gpus: "8xA100"}, {file: "{}\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			home := instance.Home(t.TempDir())
			for i, step := range steps {
				if step.file != "" {
					write(t, home.Config(), head+strings.TrimPrefix(step.file, "{}\n"))
				}
				s, err := settled(t, home, strings.Fields(step.args)...)
				if err != nil {
					t.Fatal(err)
				}
				want := configuration.Default()
				want.SimulateGPUs, want.Guard.Devices = step.gpus, step.guard
				if step.tier != "" {
					want.Tier = configuration.Tier(step.tier)
				}
				if step.containerd != "" {
					want.Containerd = step.containerd
				}
				if d := cmp.Diff(want, s.config); d != "" {
					t.Errorf("start %d: (-want +got)\n%s", i, d)
				}
				if notes := strings.Join(s.notes, "\n"); step.note == "" && notes != "" || !strings.Contains(notes, step.note) {
					t.Errorf("start %d says %q, want %q", i, notes, step.note)
				}
			}
		})
	}
}

// TestConfigurationAsLastTime: a configuration file that was named is read again, and a start
// is refused if it is gone.
func TestConfigurationAsLastTime(t *testing.T) {
	home := instance.Home(t.TempDir())
	file := filepath.Join(t.TempDir(), "mine.yaml")
	write(t, file, "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\ndataCache: 3Gi\n")
	for _, args := range [][]string{{"--config", file}, nil} {
		s, err := settled(t, home, args...)
		if err != nil || s.file != file || s.config.DataCache.String() != "3Gi" {
			t.Errorf("%v: file %q, %+v, %v", args, s.file, s.config.DataCache, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	_, err := settled(t, home)
	if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), "the last muster up named that file: give another with --config") {
		t.Errorf("code %d, %v", code, err)
	}
	if s, err := settled(t, home, "--config="); err != nil || s.file != "" || !s.config.DataCache.IsZero() {
		t.Errorf("given up: file %q, %v", s.file, err)
	}
	if s, err := settled(t, home); err != nil || len(s.notes) > 0 {
		t.Errorf("after that: %v, %v", s.notes, err)
	}
}

// TestRefusedIsNotRemembered: flags of a start that is refused do not change the next one.
func TestRefusedIsNotRemembered(t *testing.T) {
	home := instance.Home(t.TempDir())
	if _, err := settled(t, home, "--tier", "plain"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--tier", "thick"}, {"--guard=on"}, {"--simulate-gpus", "1"}} {
		_, err := settled(t, home, args...)
		if code, _ := exit.Of(err); code != exit.Misuse {
			t.Errorf("%v: code %d, %v", args, code, err)
		}
	}
	if s, err := settled(t, home); err != nil || s.config.Tier != configuration.TierPlain {
		t.Errorf("%q, %v", s.config.Tier, err)
	}
	write(t, filepath.Join(string(home), "flags.json"), "{")
	if _, err := settled(t, home); err == nil || !strings.Contains(err.Error(), "correct it, or remove it") {
		t.Errorf("%v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
