package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// TestShow shows one datum after the other at a path.
func TestShow(t *testing.T) {
	mount := t.TempDir()
	datum := func(inputs ...string) shift.Datum {
		folder := t.TempDir()
		for _, name := range append(inputs, "../"+shift.OutFolder) {
			if err := os.MkdirAll(filepath.Join(folder, shift.InFolder, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range inputs {
			if err := os.WriteFile(filepath.Join(folder, shift.InFolder, name, "file"), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return shift.Datum{ID: "1", Folder: folder}
	}
	w := &worker{program: &shift.Program{Mount: mount, Inputs: []string{"images", "labels"}}}
	for _, c := range []struct {
		name   string
		inputs []string
	}{{"both", []string{"images", "labels"}}, {"one of a union", []string{"labels"}}, {"both again", []string{"images", "labels"}}} {
		d := datum(c.inputs...)
		if err := w.show(d); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var shown []string
		entries, err := os.ReadDir(mount)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			shown = append(shown, entry.Name())
		}
		if diff := cmp.Diff(append(c.inputs, "out"), shown); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		text, err := os.ReadFile(filepath.Join(mount, "labels", "file"))
		if err != nil || string(text) != "labels" {
			t.Errorf("%s: read %q, %v", c.name, text, err)
		}
		if err := os.WriteFile(filepath.Join(mount, "out", "made"), nil, 0o600); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(d.Folder, shift.OutFolder, "made")); err != nil {
			t.Errorf("%s: what is written to out: %v", c.name, err)
		}
	}
	d := datum("images", "labels")
	if err := w.show(d); err != nil {
		t.Fatal(err)
	}
	if err := w.look(d, time.Now()); err != nil {
		t.Errorf("with all in its place: %v", err)
	}
	for _, own := range []string{"out", "labels", "notes"} { // a program's own, in place of what is shown
		_ = os.Remove(filepath.Join(mount, own))
		if err := os.MkdirAll(filepath.Join(mount, own, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.look(d, time.Now()); err == nil || !strings.Contains(err.Error(), "it removed "+filepath.Join(mount, "out")) {
		t.Errorf("with its own folder as the output: %v", err)
	}
	if err := w.show(d); err != nil {
		t.Errorf("the next datum: %v", err)
	}
	if _, err := os.Stat(filepath.Join(mount, "notes", "deep")); err != nil || w.look(d, time.Now()) != nil {
		t.Errorf("what is nobody else's stays: %v", err)
	}
	w.program.Mount = filepath.Join(mount, "none")
	if err := w.show(datum()); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
