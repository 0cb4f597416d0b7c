package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// socketMode lets every user of the machine connect.
	socketMode = 0o666
	// maxName bounds the name of a socket, in bytes. The kernel takes paths of at most
	// 107 bytes; the folder is named by a descriptor and counts little.
	maxName = 75
)

// Listener accepts connections of users of the machine.
type Listener struct {
	*net.UnixListener
	path   string
	folder *place
	lock   *os.File
	// overflow are uids that stand for many users.
	overflow []uint32
	self     os.FileInfo

	close sync.Once
}

// Listen listens at a path of any length. It makes the folder, with mode 0755, where it
// is missing; one that is there must belong to this user, and no other user may write to
// it. The socket of a server that has ended is replaced; one that answers is an error.
func Listen(ctx context.Context, path string) (_ *Listener, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("listening at %s: %w", path, err)
		}
	}()
	name := filepath.Base(path)
	if len(name) > maxName {
		return nil, fmt.Errorf("the name of the socket has %d bytes: give one of at most %d", len(name), maxName)
	}
	l := &Listener{path: path, overflow: overflowUIDs()}
	if l.folder, err = makePlace(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := l.open(ctx, name); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// open makes the socket.
//
//  1. Take the lock, so that no other Muster is here.
//  2. Check what has the name now.
//  3. Make the socket under another name and let all users connect.
//  4. Give it its name, in place of the socket of a server that has ended.
func (l *Listener) open(ctx context.Context, name string) (err error) {
	root := l.folder.root
	if l.lock, err = root.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE|osfile.NoFollow, 0o600); err != nil {
		return fmt.Errorf("opening the lock: %w", err)
	}
	if err := osfile.TryLock(l.lock); errors.Is(err, osfile.ErrLocked) {
		return errors.New("another Muster listens there: stop it first, or choose another path")
	} else if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	if err := l.folder.free(ctx, name); err != nil {
		return err
	}
	temporary := "." + name + ".new"
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing what is left of an earlier start: %w", err)
	}
	opened, err := (&net.ListenConfig{}).Listen(ctx, "unix", l.folder.at(temporary))
	if err != nil {
		return err
	}
	l.UnixListener = opened.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // it would remove the temporary name
	if err := root.Chmod(temporary, socketMode); err != nil {
		return fmt.Errorf("letting users connect: %w", err)
	}
	if l.self, err = root.Lstat(temporary); err != nil {
		return err
	}
	return root.Rename(temporary, name)
}

// Accept waits for a connection. Its peer is read at once; [Context] passes it on.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	accepted := &identified{Conn: conn}
	accepted.peer, accepted.err = l.peerOf(conn)
	return accepted, nil
}

// Addr returns the path of the socket.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close ends the listener and removes its socket, if it still has its name.
func (l *Listener) Close() (err error) {
	l.close.Do(func() {
		name := filepath.Base(l.path)
		if now, missing := l.folder.root.Lstat(name); missing == nil && os.SameFile(now, l.self) {
			err = l.folder.root.Remove(name)
		}
		err = errors.Join(err, l.release())
	})
	return err
}

// release closes what is open. The lock comes last.
func (l *Listener) release() (err error) {
	if l.UnixListener != nil {
		err = l.UnixListener.Close()
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return errors.Join(err, l.folder.close())
}

// place is an open folder.
type place struct {
	handle *os.File
	// root is the same folder; nil where this user only passes through it.
	root *os.Root
}

// openPlace opens a folder in which this user may look up names.
func openPlace(path string) (*place, error) {
	handle, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	return &place{handle: handle}, err
}

// makePlace opens the folder for a socket, and makes it.
func makePlace(path string) (_ *place, err error) {
	_, missing := os.Lstat(path)
	if err := osfile.MakeFolder(path, 0o755); err != nil {
		return nil, fmt.Errorf("making its folder: %w", err)
	}
	p, err := openPlace(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.root, err = os.OpenRoot(p.at(".")); err != nil {
		return nil, err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		if err := p.root.Chmod(".", 0o755); err != nil { // whatever the umask
			return nil, err
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(p.handle.Fd()), &stat); err != nil {
		return nil, err
	}
	switch {
	case int(stat.Uid) != os.Geteuid():
		return nil, fmt.Errorf("the folder belongs to uid %d: it has to belong to uid %d, which runs Muster", stat.Uid, os.Geteuid())
	case stat.Mode&0o022 != 0:
		return nil, fmt.Errorf("the folder has mode %04o: other users must not write to it, so chmod 0755 %s", stat.Mode&0o7777, path)
	}
	return p, nil
}

// at names an entry of the folder with few bytes.
func (p *place) at(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(int(p.handle.Fd())) + "/" + name
}

// free returns an error if the name is in use by anything but the socket of a server
// that has ended.
func (p *place) free(ctx context.Context, name string) error {
	info, err := p.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &osfile.KindError{Name: name, Is: osfile.Kind(info.Mode()), Want: "a socket"}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.at(name))
	switch {
	case err == nil:
		return errors.Join(errors.New("another server listens there: stop it first, or choose another path"), conn.Close())
	case errors.Is(err, unix.ECONNREFUSED):
		return nil
	}
	return fmt.Errorf("finding out whether a server listens there: %w", err)
}

func (p *place) close() error {
	if p.root != nil {
		return errors.Join(p.root.Close(), p.handle.Close())
	}
	return p.handle.Close()
}

// overflowUIDs returns the default overflow uid, and that of this machine.
func overflowUIDs() []uint32 {
	uids := []uint32{65534}
	raw, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return uids
	}
	if uid, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 32); err == nil {
		uids = append(uids, uint32(uid))
	}
	return uids
}
