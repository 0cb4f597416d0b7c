//go:build linux

package ondemand

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestReady: only who lives is ready, whatever one left that was killed: it is asked again
// while the next one has only begun.
func TestReady(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	is := func() bool { return Main(t.Context(), []string{"--ask", "--ready", ready}, io.Discard) == 0 }
	if is() {
		t.Error("nobody is ready")
	}
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if is() {
		t.Error("one that was killed is ready")
	}
	file, err := say(ready)
	if err != nil {
		t.Fatal(err)
	}
	if !is() {
		t.Error("one that serves is not ready")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if is() {
		t.Error("one that has ended is ready")
	}
}
