package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/hack/dist/internal/revision"
)

func TestChoose(t *testing.T) {
	all, err := choose("")
	if err != nil || len(all) != len(parts)-1 {
		t.Errorf("all are %d of %d: %v", len(all), len(parts), err)
	}
	some, err := choose("wheel,chart")
	if err != nil || len(some) != 2 || some[0].name != "chart" || some[1].name != "wheel" {
		t.Errorf("two are %v: %v", some, err)
	}
	if _, err := choose("wheel,floppy"); err == nil || !strings.Contains(err.Error(), "floppy") || strings.Contains(err.Error(), "part wheel") {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestChecksums makes the chart, which takes no compiler, beside a file of another
// version, which goes.
func TestChecksums(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	old := filepath.Join(out, "muster-0.0.1.tgz")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := newMaker(root, out, revision.Revision{Semantic: "0.1.0", Python: "0.1.0", Commit: "abc"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose("chart")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.make(t.Context(), chosen); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(out, "muster-0.1.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x  muster-0.1.0.tgz\n", sha256.Sum256(content)); string(sums) != want {
		t.Errorf("the checksums are %q, want %q", sums, want)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("a file of another version is still there")
	}
}
