package license

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestList lists what this very package links: one module beside the standard
// library.
func TestList(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum"} { // the go command reads them, not this process
		if _, err := os.Stat(filepath.Join("../../../..", name)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := List(t.Context(), "../../../..", []Program{{Packages: []string{"./hack/dist/internal/license"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, m.Path+" "+strings.Join(m.Licences, ","))
		if m.Version == "" || len(m.Notices) == 0 {
			t.Errorf("%+v has no version, or no words", m)
		}
	}
	if diff := cmp.Diff([]string{"std BSD-3-Clause,GooglePatentsFile", "github.com/google/licensecheck BSD-3-Clause"}, got); diff != "" {
		t.Error(diff)
	}
	var text strings.Builder
	if err := Write(&text, list); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"github.com/google/licensecheck v", "Redistribution and use in source and binary forms"} {
		if !strings.Contains(text.String(), words) {
			t.Errorf("the list has no %q", words)
		}
	}
}

// TestUnknownLicence fails on a module whose licence is none that is known.
func TestUnknownLicence(t *testing.T) {
	for name, words := range map[string]string{"none": "", "another": "You may look at this on Tuesdays, and only if you ask my cat beforehand."} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if words != "" {
				if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte(words), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := read(Module{Path: "example.org/cat", Version: "v1.2.3"}, dir, []string{dir})
			if err == nil || !strings.Contains(err.Error(), "example.org/cat v1.2.3") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestIsNotice(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENSE.txt": true, "LICENSE-MIT": true, "COPYING": true, "NOTICE": true,
		"license.go": false, "README.md": false, "licenses": false, "License.md": true,
	} {
		if got := isNotice(name); got != want {
			t.Errorf("%s is a notice: %t", name, got)
		}
	}
}
