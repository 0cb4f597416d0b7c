package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/room"
)

// checkDisk finds out before anything starts whether the data folder can be
// written and has room: upstream only says so in a stack trace.
func checkDisk(dir string, bare bool) error {
	space, err := tend(dir, bare)
	if err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("writing to the data folder: %w", explain(err, dir))
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return fmt.Errorf("writing to the data folder: %w", explain(err, dir))
	}
	logs, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
	if err != nil {
		return fmt.Errorf("looking for etcd's log: %w", err)
	}
	return space.CanStart(len(logs) == 0)
}

// tend releases the reserve if the disk is nearly full, and makes it if there is room.
func tend(dir string, bare bool) (room.Space, error) {
	if bare {
		return room.Look(dir)
	}
	return room.Tend(dir)
}
