//go:build unix

package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTrusted(t *testing.T) {
	if err := Trusted("/proc/self/exe-of-nobody"); err == nil {
		t.Error("a missing program is trusted")
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := Trusted("/bin/sh"); err != nil {
		t.Errorf("%s: %v", shell, err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { // past the umask
		t.Fatal(err)
	}
	program := filepath.Join(open, "muster")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Trusted(program); err == nil || !strings.Contains(err.Error(), "install -m 755 "+program) {
		t.Errorf("a program below a folder for all: %v", err)
	}
	info, err := os.Lstat(program)
	if err != nil {
		t.Fatal(err)
	}
	wanted := os.Getuid() == 0
	if err := onlyRoot(program, info); (err == nil) != wanted {
		t.Errorf("a file of this user: %v", err)
	}
	if err := os.Chmod(program, 0o775); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Lstat(program); err != nil {
		t.Fatal(err)
	}
	if err := onlyRoot(program, info); err == nil {
		t.Error("a file that its group can write is trusted")
	}
}
