package enclosure

import (
	"os"
	"testing"

	"github.com/muster-dev/muster/internal/node/rig"
)

// TestMain runs the tests in a mount namespace of their own.
func TestMain(m *testing.M) { os.Exit(rig.RunMounting(m)) }
