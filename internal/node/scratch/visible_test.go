package scratch

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInterpreter: the settings of a Python environment are a user's, who may put anything in their
// place.
func TestInterpreter(t *testing.T) {
	const text = "include-system-site-packages = false\nhome = /opt/python/bin\n"
	for name, c := range map[string]struct {
		makes func(path string) error
		want  string
	}{
		"a file":   {func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }, "/opt/python"},
		"nothing":  {func(string) error { return nil }, ""},
		"a pipe":   {func(path string) error { return unix.Mkfifo(path, 0o600) }, ""},
		"a device": {func(path string) error { return os.Symlink("/dev/zero", path) }, ""},
		"a terabyte": {func(path string) error {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.makes(filepath.Join(dir, "pyvenv.cfg")); err != nil {
				t.Fatal(err)
			}
			if got := interpreter(dir); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
