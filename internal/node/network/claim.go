package network

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// claim is a process's hold on a bridge and all that belongs to it.
//
// It is a name among the abstract Unix sockets. Those belong to the network
// namespace, as the bridge does: whoever sees the bridge sees the claim, even
// with other files and process numbers before their eyes, as containers that
// share the machine's network have. And the kernel withdraws it however the
// process ends.
type claim struct{ fd int }

// errClaimed says that a living process holds the claim.
var errClaimed = errors.New("another process has it open")

// claimBridge takes the claim on a bridge of the machine, or gives errClaimed.
func (n *Network) claimBridge(bridge string) (*claim, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("claiming the bridge %s: %w", bridge, err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@muster-network/" + bridge})
	if err == nil {
		return &claim{fd: fd}, nil
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = errClaimed
	}
	return nil, errors.Join(fmt.Errorf("claiming the bridge %s: %w", bridge, err), unix.Close(fd))
}

// withdraw gives the claim back. It may be called on nil.
func (c *claim) withdraw() error {
	if c == nil {
		return nil
	}
	return unix.Close(c.fd)
}
