package worker

import (
	"errors"

	"golang.org/x/sys/unix"
)

// inherit has the kernel give this process, as its children, all that its programs leave
// behind, whatever group, session or namespace that went to.
func inherit() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// alone says that of all programs that this worker ran nothing is left. A process loses
// its children to its heir before anybody hears that it ended; so who has no child once a
// program was waited for has no descendant. What ended meanwhile is waited for here.
func (w *worker) alone() bool {
	for w.heir {
		switch pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); {
		case errors.Is(err, unix.ECHILD):
			return true
		case errors.Is(err, unix.EINTR), err == nil && pid > 0:
		default:
			return false // something runs, or nobody knows
		}
	}
	return false
}
