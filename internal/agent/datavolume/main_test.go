package datavolume

import (
	"os"
	"testing"

	"github.com/muster-dev/muster/internal/node/rig"
)

// What is mounted is mounted in a namespace of the tests' own.
func TestMain(m *testing.M) { os.Exit(rig.RunMounting(m)) }
