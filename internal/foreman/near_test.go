package foreman_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/foreman"
)

// TestEarlierBoot: where workers are on the same machine, files of datums outlive a restart of Muster and not
// one of the machine.
func TestEarlierBoot(t *testing.T) {
	dir := t.TempDir()
	begin := func(near bool) []string {
		t.Helper()
		f, err := foreman.New(foreman.Options{Dir: dir, Near: near})
		if err != nil {
			t.Fatal(err)
		}
		known, err := f.Known()
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	left := filepath.Join(dir, "work", "run.stage", "0", "out")
	write := func() {
		t.Helper()
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if known := begin(false); len(known) != 1 {
		t.Errorf("where workers are elsewhere, %q is left", known)
	}
	if known := begin(true); len(known) != 0 {
		t.Errorf("of an unknown boot %q is left", known)
	}
	write()
	if known := begin(true); len(known) != 1 {
		t.Errorf("of this boot %q is left", known)
	}
	if err := os.WriteFile(filepath.Join(dir, "boot"), []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if known := begin(true); len(known) != 0 {
		t.Errorf("of another boot %q is left", known)
	}
}
