package planetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/controlplane/contract"
)

func TestChildOf(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "muster")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, program, says string }{
		{name: "program", program: program},
		{name: "missing", program: filepath.Join(dir, "nothing"), says: "no program at " + filepath.Join(dir, "nothing") + ": run 'make tested'"},
		{name: "folder", program: dir, says: "is not an executable file"},
		{name: "not executable", program: script, says: "is not an executable file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command, err := childOf(c.program)
			switch {
			case c.says == "" && (err != nil || !slices.Equal(command, []string{c.program, contract.Verb})):
				t.Errorf("childOf() = %q, %v", command, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("childOf() = %q, %v: the error does not contain %q", command, err, c.says)
			}
		})
	}
}
