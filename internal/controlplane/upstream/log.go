package upstream

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	logLimit    = 32 << 20 // bytes
	logInterval = time.Minute
)

// watchLog keeps the log file that standard output and error go to below a
// size: past it the file is moved to <path>.1, over the one before, and a new
// one takes its place under the same descriptors, so that even what the runtime
// writes while it crashes lands in it.
func watchLog(ctx context.Context, path string) *sync.WaitGroup {
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(logInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := rotateLog(path, logLimit); err != nil {
				klog.ErrorS(err, "Rotating the log", "path", path)
			}
		}
	})
	return &group
}

func rotateLog(path string, limit int64) error {
	info, err := os.Stderr.Stat()
	if err != nil || info.Size() < limit {
		return err
	}
	if err := os.Rename(path, path+".1"); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for _, fd := range []int{unix.Stdout, unix.Stderr} {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}
