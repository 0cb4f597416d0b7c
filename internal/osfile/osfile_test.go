package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// open opens the file once more: a lock belongs to what was opened.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	one, two := open(t, path), open(t, path)
	if err := LockShared(one); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(two); !errors.Is(err, ErrLocked) {
		t.Errorf("a lock that another has shared: %v", err)
	}
	if err := LockShared(two); err != nil {
		t.Errorf("sharing a lock: %v", err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Lock(one); err != nil {
		t.Errorf("a lock that nobody else has: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(open(t, path)); err != nil {
		t.Errorf("a lock whose file was closed: %v", err)
	}
}

func TestSpace(t *testing.T) {
	total, available, err := Space(t.TempDir())
	if err != nil || total <= 0 || available < 0 || available > total {
		t.Errorf("%d of %d bytes are left: %v", available, total, err)
	}
	if _, _, err := Space(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("a folder that is not there has room")
	}
}

// TestReplace writes over files, links and nothing; a failed write leaves no
// temporary file.
func TestReplace(t *testing.T) {
	for name, replace := range map[string]func(string, []byte, os.FileMode) error{"synced": Replace, "unsynced": ReplaceUnsynced} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			outside := filepath.Join(t.TempDir(), "outside")
			for _, step := range []error{
				os.WriteFile(outside, []byte("theirs"), 0o644),
				os.WriteFile(filepath.Join(dir, "file"), []byte("a longer one"), 0o644),
				os.Symlink(outside, filepath.Join(dir, "link")),
				os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o755),
			} {
				if step != nil {
					t.Fatal(step)
				}
			}
			for _, name := range []string{"new", "file", "link"} {
				path := filepath.Join(dir, name)
				if err := replace(path, []byte(name), 0o604); err != nil {
					t.Fatal(err)
				}
				info, err := os.Lstat(path)
				got, failed := os.ReadFile(path)
				if err := errors.Join(err, failed); err != nil || string(got) != name || info.Mode() != 0o604 {
					t.Errorf("%s is %q, %v: %v", name, got, info.Mode(), err)
				}
			}
			if got, err := os.ReadFile(outside); err != nil || string(got) != "theirs" {
				t.Errorf("the target of a link is %q: %v", got, err)
			}
			if err := replace(filepath.Join(dir, "folder"), nil, 0o600); err == nil {
				t.Error("a folder was replaced")
			}
			if err := replace(filepath.Join(dir, "nowhere", "file"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("in a folder that is not there: %v", err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 4 {
				t.Errorf("the folder has %v: %v", entries, err)
			}
		})
	}
}

func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	for range 2 {
		if err := MakeFolder(path, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() || info.Mode().Perm() != 0o750 {
		t.Errorf("%v: %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeFolder(filepath.Join(dir, "file"), 0o750); !errors.Is(err, os.ErrExist) {
		t.Errorf("in place of a file: %v", err)
	}
}
