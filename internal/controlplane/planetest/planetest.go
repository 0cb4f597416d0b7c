package planetest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/test/e2e/harness"
)

const (
	// startTimeout bounds a start, which takes 3 s on an idle machine.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds a stop.
	stopTimeout = time.Minute
)

// Command returns the command of the control plane's child, for
// [controlplane.Options.Executable]. It fails the test if the program is
// missing.
func Command(t testing.TB) []string {
	t.Helper()
	command, err := childOf(harness.Binary())
	if err != nil {
		t.Fatal(err)
	}
	return command
}

// childOf returns the command that runs program as the control plane's child.
//
// The call of os.Stat is part of the tests' correctness: go test keys a cached
// result by the size, mode and modification time of the files below the
// module's root that the test process stats or opens, and does not know of
// files that only a child process reads. Without the call, a test would report
// a pass of an older program. Files outside the module's root are never part of
// the key: with $MUSTER_BINARY outside it, run go test -count=1.
func childOf(program string) ([]string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return nil, fmt.Errorf("no program at %s: run 'make tested', or name one with $MUSTER_BINARY: %w", program, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s is not an executable file (mode %s): run 'make tested', or name a program with $MUSTER_BINARY", program, info.Mode())
	}
	return []string{program, contract.Verb}, nil
}

// Start starts a control plane in a data folder of the test's own, waits until
// it is ready, and stops it after the test's later cleanups. It fails the test
// if the control plane does not start or does not stop in order.
func Start(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{DataDir: t.TempDir(), Executable: Command(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := plane.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return plane
}
