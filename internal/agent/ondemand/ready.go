//go:build linux

package ondemand

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// say has a file say that everything is served, for as long as it is open: it is locked.
// What one leaves that is killed says nothing.
func say(ready string) (*os.File, error) {
	file, err := os.OpenFile(ready, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("saying that everything is served: %w", err)
	}
	if err := lock(file, unix.LOCK_EX); err != nil { // who asks looks for a moment
		return nil, errors.Join(fmt.Errorf("saying that everything is served: %w", err), file.Close())
	}
	return file, nil
}

// said reports whether a file says so.
func said(ready string) bool {
	file, err := os.Open(ready)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return errors.Is(lock(file, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func lock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
