package supervise

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// openTerminal opens a pseudo terminal. The slave belongs to the user who is
// to use it.
func openTerminal(c *syscall.Credential) (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("opening /dev/ptmx: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(master)
		}
	}()
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, -1, fmt.Errorf("unlocking a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, -1, fmt.Errorf("asking for a terminal's number: %w", err)
	}
	path := fmt.Sprintf("/dev/pts/%d", number)
	slave, err = unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("opening %s: %w", path, err)
	}
	if c != nil {
		// Without the owner, the user could not open /dev/tty by its name.
		_ = unix.Fchown(slave, int(c.Uid), int(c.Gid))
	}
	return master, slave, nil
}

func setSize(terminal int, r contract.Request) {
	if r.Columns > 0 && r.Rows > 0 {
		_ = unix.IoctlSetWinsize(terminal, unix.TIOCSWINSZ, &unix.Winsize{Col: r.Columns, Row: r.Rows})
	}
}

// resize sets the size of the container's terminal.
func (s *supervisor) resize(r contract.Request) (contract.Reply, error) {
	<-s.started
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal == nil {
		return contract.Reply{}, errors.New("the container has no terminal")
	}
	raw, err := s.terminal.SyscallConn()
	if err != nil {
		return contract.Reply{}, err
	}
	err = raw.Control(func(fd uintptr) { setSize(int(fd), r) })
	return contract.Reply{Done: err == nil}, err
}
