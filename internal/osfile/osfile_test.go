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
