package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLocksOfOthers: any user may put anything in a lock's place, and any text into a lock.
func TestLocksOfOthers(t *testing.T) {
	for name, makes := range map[string]func(path, other string) error{
		"a pipe":        func(path, _ string) error { return unix.Mkfifo(path, 0o666) },
		"a link":        func(path, other string) error { return os.Symlink(other, path) },
		"a file's name": func(path, other string) error { return os.Link(other, path) },
		"a folder":      func(path, _ string) error { return os.Mkdir(path, 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "lock"), filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("kept"), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := makes(path, other); err != nil {
				t.Fatal(err)
			}
			if lock, err := openLock(path); err == nil {
				t.Errorf("it was taken for a lock: %v", lock.Close())
			}
		})
	}
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("user\x1b[31m 7\n"+strings.Repeat("x", 1<<20)), 0o666); err != nil {
		t.Fatal(err)
	}
	lock, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if got := holder(lock); len(got) > mostHolder || !strings.HasPrefix(got, "user [31m 7 xxx") {
		t.Errorf("the holder is told as %.40q of %d bytes", got, len(got))
	}
}
