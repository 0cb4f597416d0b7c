package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// TestChecksums makes the chart, which takes no compiler. Files of other versions go, those included
// whose names begin with this one's, and what is no file of a release stays.
func TestChecksums(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		version      revision.Revision
		gone, stays  []string
		foreign, sum string
	}{
		"a release": {
			version: revision.Revision{Semantic: "0.1.0", Python: "0.1.0", Commit: "abc"},
			gone: []string{
				"muster-0.0.1.tgz", "muster-0.1.0-dev.9.gabc.tgz", "muster-0.1.0-dev.9.gabc-linux-amd64.tar.gz", "muster-0.1.0.dev9+gabc-py3-none-any.whl",
				"muster-0.1.0-linux-amd64.tar.gz.part", "muster-0.1.0-amiga.tar.gz",
			},
			stays:   []string{"muster-0.1.0-licenses.txt", "muster-0.1.0-py3-none-manylinux_2_17_x86_64.whl", "muster-0.1.0-amd64.oci.tar", "muster-0.1.0-linux-amd64-static.tar.gz", "muster-0.1.0-windows-amd64.zip"},
			foreign: "muster-backup-2026.tar.gz", sum: "muster-0.1.0.tgz",
		},
		"a clean checkout after a changed one": {
			version: revision.Revision{Semantic: "0.1.0-dev.9.gabc", Python: "0.1.0.dev9+gabc", Commit: "abc"},
			gone:    []string{"muster-0.1.0-dev.9.gabc.changed.tgz", "muster-0.1.0-dev.9.gabc.changed.oci.tar", "muster-0.1.0.dev9+gabc.changed-py3-none-any.whl", "muster-0.1.0.tgz"},
			stays:   []string{"muster-0.1.0-dev.9.gabc.oci.tar"},
			foreign: "muster-notes.txt", sum: "muster-0.1.0-dev.9.gabc.tgz",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			for _, file := range slices.Concat(c.gone, c.stays, []string{c.foreign}) {
				if err := os.WriteFile(filepath.Join(out, file), []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m, err := newMaker(root, out, c.version, io.Discard)
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
			made := append(slices.Clone(c.stays), c.sum)
			slices.Sort(made)
			var want strings.Builder
			for _, file := range made {
				content, err := os.ReadFile(filepath.Join(out, file))
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(content), file)
			}
			sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
			if err != nil || string(sums) != want.String() {
				t.Errorf("the checksums are\n%s%v, want\n%s", sums, err, want.String())
			}
			entries, err := os.ReadDir(out)
			if want := len(made) + 2; err != nil || len(entries) != want { // SHA256SUMS and the foreign file
				t.Errorf("the folder has %v, %v; want %d files", entries, err, want)
			}
		})
	}
}
