package datavolume

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/agent/ondemand"
	"github.com/muster-dev/muster/internal/node/rig"
)

// serving is the variable by which the program of these tests is the one that serves
// mounts, at the desk that it names.
const serving = "MUSTER_TEST_DESK"

// What is mounted is mounted in a namespace of the tests' own.
func TestMain(m *testing.M) {
	desk := os.Getenv(serving)
	if desk == "" {
		os.Exit(rig.RunMounting(m))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := ondemand.Main(ctx, []string{"--desk", desk, "--ready", os.Getenv(serving + "_READY")}, os.Stderr)
	stop()
	os.Exit(code)
}
