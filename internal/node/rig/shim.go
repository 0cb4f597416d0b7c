package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// shim is built by the first test that asks, and removed by Run.
var shim struct {
	sync.Once
	dir, path string
	err       error
}

// Shim builds the shim as the product has it, once for all tests of a package,
// and returns its path.
func Shim(t testing.TB) string {
	t.Helper()
	shim.Do(func() { shim.path, shim.err = buildShim() })
	if shim.err != nil {
		t.Fatal(shim.err)
	}
	return shim.path
}

func buildShim() (string, error) {
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		return "", fmt.Errorf("making a folder for the shim: %w", err)
	}
	shim.dir = dir
	path := filepath.Join(dir, "muster-shim")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "github.com/muster-dev/muster/cmd/muster-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the shim: %w\n%s", err, out)
	}
	return path, nil
}

func removeShim() {
	if shim.dir != "" {
		_ = os.RemoveAll(shim.dir)
	}
}
