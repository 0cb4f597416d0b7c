package run

import (
	"strings"
	"testing"
)

// TestTheSameIdentity: two members do not get the same identity.
func TestTheSameIdentity(t *testing.T) {
	shell := func(string) (string, bool) { return "$(INDEX)", true }
	for _, c := range []struct {
		name  string
		flags Flags
		says  string
	}{
		{"a cluster by hand", Flags{Workers: pointer(2), PS: pointer(1), Env: []string{`TF_CONFIG={"task":{"type":"worker","index":0}}`}}, "all 3 members would get the same value"},
		{"a rank", Flags{Nodes: pointer(2), Env: []string{"RANK=0"}}, "leave it out: Muster sets such variables"},
		{"the shell's", Flags{Nodes: pointer(2), Env: []string{"NODE_RANK"}}, "all 2 members"},
		{"without a framework", Flags{Workers: pointer(2), Framework: "None", Env: []string{"RANK=0"}}, "--env 'RANK=$(INDEX)'"},
		{"each member's own", Flags{Nodes: pointer(2), Env: []string{"RANK=$(INDEX)"}}, ""},
		{"one member", Flags{Env: []string{"RANK=0", "TF_CONFIG={}"}}, ""},
		{"the same for all", Flags{Nodes: pointer(2), Env: []string{"MASTER_PORT=29500", "LR=0.1"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.flags.Command = []string{"python", "train.py"}
			_, err := Build(c.flags, Inputs{Folder: "f", Suffix: "abcde", Getenv: shell})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
