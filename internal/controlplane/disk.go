package controlplane

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// minFree is how many bytes must be free for etcd to start: its first log
// segment alone takes 64 MB.
const minFree = 256 << 20

// checkDisk finds out before anything starts whether the data folder can be
// written and has room: upstream only says so in a stack trace.
func checkDisk(dir string, need uint64) error {
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("writing to the data folder: %w", explain(err, dir))
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return fmt.Errorf("writing to the data folder: %w", explain(err, dir))
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("measuring the disk of the data folder: %w", err)
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < need {
		return fmt.Errorf("the disk of %s is full: %d MiB are free, %d MiB are needed: make room there, or give another data folder", dir, free>>20, need>>20)
	}
	return nil
}
