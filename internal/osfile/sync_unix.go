//go:build unix

package osfile

import (
	"errors"
	"fmt"
	"os"
)

// SyncFolder makes the names in a folder survive a loss of power.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncRoot is [SyncFolder] for a folder that is open.
func syncRoot(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("syncing a folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
