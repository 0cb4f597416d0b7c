package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dial connects to a socket at a path of any length. The socket, and the process that
// listens at it, must be of root or of this user; else the error is a [*ForeignError], and
// nothing was sent.
func Dial(ctx context.Context, path string) (_ net.Conn, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("connecting to %s: %w", path, err)
		}
	}()
	folder, err := openPlace(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.close()) }()
	name := folder.at(filepath.Base(path))
	if err := checkSocket(path, name); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	if err := checkServer(path, conn.(*net.UnixConn)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// checkSocket refuses a file that another user has put there.
func checkSocket(path, name string) error {
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s is no socket: remove it, or name the socket of a Muster", path)
	}
	return trusted(path, stat.Uid)
}

// checkServer refuses a server of another user. The kernel notes who listens.
func checkServer(path string, conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var server *unix.Ucred
	outer := raw.Control(func(fd uintptr) { server, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(outer, err); err != nil {
		return fmt.Errorf("asking the kernel for the user of the server: %w", err)
	}
	return trusted(path, server.Uid)
}

// trusted refuses users other than root and this one.
func trusted(path string, uid uint32) error {
	if uid != 0 && int(uid) != os.Geteuid() {
		return &ForeignError{Path: path, UID: uid}
	}
	return nil
}
