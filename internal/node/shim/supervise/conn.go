package supervise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// lineLimit bounds a request, in bytes: an environment may be long.
const lineLimit = 4 << 20

// conn is a connected or listening stream socket, without the weight of
// package net.
type conn struct {
	file *os.File
	fds  []int // files that came along with the request

	mu sync.Mutex // one reply at a time
}

// newConn takes over a socket. The runtime's poller waits on it.
func newConn(fd int) *conn {
	unix.CloseOnExec(fd)
	_ = unix.SetNonblock(fd, true)
	return &conn{file: os.NewFile(uintptr(fd), "socket")}
}

func (c *conn) close() {
	_ = c.file.Close()
	for _, fd := range c.fds {
		_ = unix.Close(fd)
	}
	c.fds = nil
}

// accept waits for the next connection.
func (c *conn) accept() (*conn, error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var acceptErr error
	err = raw.Read(func(listener uintptr) bool {
		for {
			fd, _, acceptErr = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if acceptErr != unix.EINTR && acceptErr != unix.ECONNABORTED {
				return acceptErr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = acceptErr
	}
	if err != nil {
		return nil, err
	}
	return newConn(fd), nil
}

// receive reads one line of JSON, and the files that come with it. io.EOF says
// that the other side closed without a word.
func (c *conn) receive(v any) error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var line []byte
	buf := make([]byte, 4096)
	rights := make([]byte, unix.CmsgSpace(4*4))
	for {
		var n, oobn int
		var recvErr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, recvErr = unix.Recvmsg(int(fd), buf, rights, unix.MSG_CMSG_CLOEXEC)
			return recvErr != unix.EAGAIN && recvErr != unix.EINTR
		})
		if err == nil {
			err = recvErr
		}
		if err != nil {
			return err
		}
		if oobn > 0 {
			if err := c.keep(rights[:oobn]); err != nil {
				return err
			}
		}
		if n == 0 {
			if len(line) == 0 {
				return io.EOF
			}
			return io.ErrUnexpectedEOF
		}
		line = append(line, buf[:n]...)
		if bytes.IndexByte(buf[:n], '\n') >= 0 {
			return json.Unmarshal(line, v)
		}
		if len(line) > lineLimit {
			return fmt.Errorf("reading a request: longer than %d bytes", lineLimit)
		}
	}
}

// keep takes over the files in a control message.
func (c *conn) keep(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		c.fds = append(c.fds, fds...)
	}
	return nil
}

// send writes one line of JSON, with files if there are any.
func (c *conn) send(v any, fds ...int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(fds) == 0 {
		_, err := c.file.Write(data)
		return err
	}
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		n, sendErr = unix.SendmsgN(int(fd), data, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return sendErr != unix.EAGAIN && sendErr != unix.EINTR
	})
	if err == nil {
		err = sendErr
	}
	if err == nil && n < len(data) {
		_, err = c.file.Write(data[n:])
	}
	return err
}

// nudge writes one byte if there is room: a reader that has not read the last
// one yet need not be told again.
func (c *conn) nudge() {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.SendmsgN(int(fd), []byte{'\n'}, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

// awaitClose returns when the other side has closed.
func (c *conn) awaitClose() {
	buf := make([]byte, 64)
	for {
		if _, err := c.file.Read(buf); err != nil {
			return
		}
	}
}
