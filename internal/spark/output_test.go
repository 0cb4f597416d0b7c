package spark

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// TestOutputIsTakenOnce: a link to an input, or an output that cannot be kept, is no reason to run
// the script again: the receiver replaces the link by its target, or refuses the output.
func TestOutputIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, shift.OutFolder)
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "s.sh")
	if err := os.WriteFile(script, []byte("ln -s ../in/texts/a "+out+"/link; ln -s /etc/shadow "+out+"/away"), 0o600); err != nil {
		t.Fatal(err)
	}
	master, err := start(t.Context(), os.Environ(), io.Discard, "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	defer master.halt()
	a := &application{Driver: &Driver{Datum: dir, Python: "/bin/sh", Script: script}, out: io.Discard, environ: os.Environ(), master: master}
	if err := a.try(t.Context()); err != nil {
		t.Errorf("the script is tried again: %v", err)
	}
	for _, link := range []string{"link", "away"} {
		if _, err := os.Lstat(filepath.Join(out, link)); err != nil {
			t.Error(err)
		}
	}
}
