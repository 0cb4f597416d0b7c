package claim

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrHeld says that a living process holds the claim.
var ErrHeld = errors.New("another process has it open")

// Claim is a process's hold on a name. A nil Claim holds none.
type Claim struct{ fd int }

// Take takes the claim on a name, such as muster-network/muster0; at most 106 bytes. It returns
// ErrHeld if a living process holds it, this one included.
func Take(name string) (*Claim, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("claiming %s: %w", name, err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name})
	if err == nil {
		return &Claim{fd: fd}, nil
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = ErrHeld
	}
	return nil, errors.Join(fmt.Errorf("claiming %s: %w", name, err), unix.Close(fd))
}

// Release gives the claim back. Further calls do nothing.
func (c *Claim) Release() error {
	if c == nil || c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("releasing a claim: %w", err)
	}
	return nil
}
