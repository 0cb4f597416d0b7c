package peer

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// overflowGID stands for every gid that has no number in this user namespace.
const overflowGID = 65534

// peerOf asks the kernel for the user who connected.
func (l *Listener) peerOf(conn *net.UnixConn) (p Peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	outer := raw.Control(func(fd uintptr) { p, err = credentials(int(fd)) })
	if err = errors.Join(outer, err); err != nil {
		return Peer{}, fmt.Errorf("asking the kernel for the user of a connection: %w", err)
	}
	if slices.Contains(l.overflow, p.UID) {
		return Peer{}, ErrUnmapped
	}
	return p, nil
}

func credentials(fd int) (Peer, error) {
	user, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	groups, err := peerGroups(fd)
	groups = slices.DeleteFunc(groups, func(gid uint32) bool { return gid == overflowGID })
	return Peer{UID: user.Uid, GID: user.Gid, Groups: groups}, err
}

// peerGroups returns the supplementary groups at the other end of a socket: at most
// 65,536, of which most processes have few.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, code := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case code == 0:
			return groups[:size/4], nil
		case code == unix.ERANGE && int(size/4) > len(groups):
			groups = make([]uint32, size/4)
		default:
			return nil, code
		}
	}
}
