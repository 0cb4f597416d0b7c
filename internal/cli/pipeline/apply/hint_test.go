package apply

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBeside(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"none":          {"import os, sys\nprint(1)\n", nil},
		"import":        {"import os, helper as h\n", []string{"helper.py"}},
		"from":          {"if x:\n    from helper.deep import y\n", []string{"helper.py"}},
		"package":       {"from models import net\nimport helper\n", []string{"helper.py", "models/__init__.py"}},
		"itself":        {"import train\n", nil},
		"in a comment":  {"# import helper\n", nil},
		"relative":      {"from . import helper\n", nil},
		"a folder only": {"import plain\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, text := range map[string]string{"train.py": c.script, "helper.py": "", "models/__init__.py": "", "plain/x.py": ""} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := beside(filepath.Join(dir, "train.py")); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
