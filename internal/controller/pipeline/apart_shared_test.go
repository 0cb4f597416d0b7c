package pipeline

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/pipeline"
)

// TestSharedMachine: no stage runs with folders of root's where users share the machine.
func TestSharedMachine(t *testing.T) {
	if why := (&Machine{Shared: true}).cannot(&pipeline.Stage{}); !strings.Contains(why, "several users") {
		t.Errorf("the reason is %q", why)
	}
	if why := (&Machine{}).cannot(&pipeline.Stage{}); why != "" {
		t.Errorf("one user: %q", why)
	}
}
