package absent

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// TestAbsentCommandSaysWhatToDo types `up` with a flag that only Linux knows.
func TestAbsentCommandSaysWhatToDo(t *testing.T) {
	cmd := New("up", "Start Muster on this machine")(&connection.Factory{})
	cmd.SetArgs([]string{"--detach"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	if code, _ := exit.Of(err); code != 2 {
		t.Fatalf("exit code %d (%v), want 2", code, err)
	}
	for _, word := range []string{"up runs on Linux", "--kubeconfig", "--context"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("it says %q, without %q", err, word)
		}
	}
}
