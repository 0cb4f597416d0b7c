package cli

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestNeeds: each verb with a need of its own exists, and has that need.
func TestNeeds(t *testing.T) {
	root := New(connection.New(terminal.Streams{}, "test"))
	machine := map[string]bool{"muster up": true, "muster down": true, "muster status": true, "muster doctor": true, "muster control-plane": true}
	paths := map[string]*cobra.Command{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		paths[cmd.CommandPath()] = cmd
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(root)
	for path := range needs {
		if paths[path] == nil && !machine[path] {
			t.Errorf("there is no verb %s", path)
		}
	}
	for path, want := range map[string]need{
		"muster": needsNothing, "muster delete": needsMuster, "muster queue list": needsMuster, "muster data key create": needsMuster,
		"muster get": needsKinds, "muster user remove": needsCluster, "muster install": needsNothing,
	} {
		if got := needOf(paths[path]); got != want {
			t.Errorf("%s needs %q, want %q", path, got, want)
		}
	}
}
