package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// link is a connection to a shim: lines of JSON both ways, with files.
type link struct {
	conn   *net.UnixConn
	reader *bufio.Reader
	files  []*os.File // that came along
}

func newLink(conn *net.UnixConn) *link {
	l := &link{conn: conn}
	l.reader = bufio.NewReader(l)
	return l
}

// Read reads from the connection and keeps the files that come along.
func (l *link) Read(buf []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return max(n, 0), err
	}
	if n == 0 {
		return 0, io.EOF
	}
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return n, err
		}
		for _, m := range messages {
			fds, err := unix.ParseUnixRights(&m)
			if err != nil {
				return n, err
			}
			for _, fd := range fds {
				unix.CloseOnExec(fd)
				_ = unix.SetNonblock(fd, true)
				l.files = append(l.files, os.NewFile(uintptr(fd), "shim"))
			}
		}
	}
	return n, nil
}

func (l *link) receive(v any) error {
	line, err := l.reader.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

func (l *link) send(v any, fds ...int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	n := 0
	if len(fds) > 0 {
		if n, _, err = l.conn.WriteMsgUnix(data, unix.UnixRights(fds...), nil); err != nil {
			return err
		}
	}
	if n < len(data) {
		_, err = l.conn.Write(data[n:])
	}
	return err
}

// interrupt makes a receive that is under way, and all later ones, return.
func (l *link) interrupt() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) }

func (l *link) close() {
	_ = l.conn.Close()
	for _, f := range l.files {
		_ = f.Close()
	}
}

// pair makes the connection that a shim inherits.
func pair() (ours *link, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "shim")
	file := os.NewFile(uintptr(fds[0]), "shim")
	defer func() { _ = file.Close() }()
	conn, err := net.FileConn(file)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	return newLink(conn.(*net.UnixConn)), theirs, nil
}

// socketPath names the control socket by way of an open folder, since the path
// of a socket may not be longer than 107 bytes.
func socketPath(folder *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), contract.SocketFile)
}

// listen makes the control socket. It exists before the shim does, so that no
// request can come too early.
func (p *Process) listen() (*os.File, error) {
	folder, err := os.Open(p.dir)
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	defer func() { _ = folder.Close() }()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), contract.SocketFile)
	err = unix.Fchmod(fd, 0o600) // what bind gives the file
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: socketPath(folder)})
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	return file, nil
}

// dial connects to the shim. ErrEnded: there is none any more.
func (p *Process) dial(ctx context.Context) (*link, error) {
	folder, err := os.Open(p.dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, ErrEnded
		}
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socketPath(folder))
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return nil, ErrEnded
	case err != nil:
		return nil, fmt.Errorf("connecting to %s: %w", filepath.Join(p.dir, contract.SocketFile), err)
	}
	return newLink(conn.(*net.UnixConn)), nil
}

// ask sends a request and waits for its reply.
func (p *Process) ask(ctx context.Context, r contract.Request, files ...*os.File) error {
	var reply contract.Reply
	l, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	stop := context.AfterFunc(ctx, l.interrupt)
	defer stop()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	err = l.send(r, fds...)
	if err == nil {
		err = l.receive(&reply)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		// The shim serves until the very end, so it has come to that.
		return ErrEnded
	case reply.Ended:
		return ErrEnded
	case reply.Error != "":
		return errors.New(reply.Error)
	}
	return nil
}
