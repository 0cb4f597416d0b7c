package shift

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func names(t *testing.T, folder string) []string {
	t.Helper()
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// The mark is one file on its way, however far whoever made it came: nobody who looks in
// between sees an outcome that is not whole.
func TestMark(t *testing.T) {
	for _, before := range []string{"", GivenFile, BegunFile} {
		for _, outcome := range []string{"", "short", strings.Repeat("long", 100)} {
			folder := t.TempDir()
			if before != "" {
				// Of another datum, and longer than some.
				if err := os.WriteFile(filepath.Join(folder, before), []byte("what was there before"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := Advance(folder, GivenFile, BegunFile); err != nil {
				t.Fatal(err)
			}
			if got, want := names(t, folder), []string{BegunFile}; !slices.Equal(got, want) {
				t.Fatalf("%q, begun: %q, want %q", before, got, want)
			}
			if err := Conclude(folder, []byte(outcome)); err != nil {
				t.Fatal(err)
			}
			if got, want := names(t, folder), []string{OutcomeFile}; !slices.Equal(got, want) {
				t.Fatalf("%q, concluded: %q, want %q", before, got, want)
			}
			text, err := os.ReadFile(filepath.Join(folder, OutcomeFile))
			if err != nil || string(text) != outcome {
				t.Errorf("%q: the outcome is %q, %v; want %q", before, text, err, outcome)
			}
		}
	}
}

// Who comes late, for a datum whose folder is another's by now, changes nothing.
func TestMarkWithoutFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "gone")
	if err := Advance(folder, GivenFile, BegunFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("advancing: %v, want that there is no such folder", err)
	}
	if err := Conclude(folder, []byte("{}")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("concluding: %v, want that there is no such folder", err)
	}
}
