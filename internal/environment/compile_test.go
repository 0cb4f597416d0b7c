//go:build linux

package environment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSources has what is to be compiled be in one of the lists each, of which
// the largest is not much larger than the others.
func TestSources(t *testing.T) {
	venv := t.TempDir()
	packages := filepath.Join(venv, "lib", "python3.11", "site-packages")
	var want []string
	for name, size := range map[string]int{"a.py": 900, "p/b.py": 300, "p/q/c.py": 300, "p/q/d.py": 200, "p/e.so": 5000, "f.pyc": 10} {
		path := filepath.Join(packages, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(strings.Repeat("#", size)), 0o600))
		if strings.HasSuffix(name, ".py") {
			want = append(want, path)
		}
	}
	lists, err := sources(venv, 2)
	must(t, err)
	got := slices.Concat(lists...)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(lists) != 2 || len(lists[0]) != 1 {
		t.Errorf("the large file is not alone: %v", lists)
	}
	if lists, err := sources(venv, 64); err != nil || len(lists) != 4 {
		t.Errorf("four files in 64 parts are %d lists, %v", len(lists), err)
	}
	if lists, err := sources(t.TempDir(), 2); err != nil || len(lists) != 0 {
		t.Errorf("nothing to compile is %v, %v", lists, err)
	}
}
