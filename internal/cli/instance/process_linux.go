package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// terminate asks the process that wrote the state to stop, and waits for its end.
// It reports whether there was one.
func terminate(ctx context.Context, s State) (bool, error) {
	pidfd, err := unix.PidfdOpen(s.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("opening process %d: %w", s.PID, err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	// The descriptor is of the process that has the pid now; make sure that it
	// still is the one that wrote the state.
	if bootTicks(s.PID) != s.BootTicks {
		return false, nil
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("asking process %d to stop: %w", s.PID, err)
	}
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 100)
		if n > 0 {
			return true, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return true, fmt.Errorf("waiting for process %d: %w", s.PID, err)
		}
	}
	return true, fmt.Errorf("waiting for process %d to end: %w", s.PID, ctx.Err())
}

// bootTicks returns when the process started, in clock ticks since boot, with
// the boot's id; empty if there is no such process or it is a zombie.
func bootTicks(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// Fields are counted after the command, which may hold spaces.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + string(fields[19])
}
