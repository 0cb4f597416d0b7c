package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// New mounts a small disk with options, such as "size=64m,nr_inodes=4000", until the test
// ends, and returns its folder. It skips the test if this user may not mount.
func New(t testing.TB, options string) string {
	t.Helper()
	dir := t.TempDir()
	err := Mount(dir, options)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may not mount a disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Lazily: processes of the test may need a moment to end.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

// Mount mounts a small disk at a folder, for processes with a mount namespace of their own.
func Mount(dir, options string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mounting a small disk at %s: %w", dir, err)
	}
	return nil
}

// Fill writes a new file until the disk of a folder has no free byte, and returns the path of
// the file. The caller removes it to free the bytes.
func Fill(dir string) (string, error) {
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		return "", fmt.Errorf("filling a disk: %w", err)
	}
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = filler.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return "", errors.Join(fmt.Errorf("filling a disk: %w", err), filler.Close())
	}
	return filler.Name(), filler.Close()
}
