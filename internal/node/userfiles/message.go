package userfiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// longestRequest and longestReply bound a message, in bytes. A path has at most 4,096.
	longestRequest = 32 << 10
	longestReply   = 128 << 10
	// mostNames is the number of entries of a folder in one reply. A name has at most 255 bytes, and
	// JSON needs up to 6 for each.
	mostNames = 64
	// mostRead is the number of bytes of a file in one reply.
	mostRead = 64 << 10
)

// call is what a helper is asked to do.
type call string

const (
	callOpen    call = "open"
	callMake    call = "make"
	callStat    call = "stat"
	callList    call = "list"
	callRemove  call = "remove"
	callLink    call = "link"
	callSub     call = "sub"
	callCopy    call = "copy"
	callReplace call = "replace"
	callRead    call = "read"
	callMeasure call = "measure"
	callScan    call = "scan"
)

// request is one message to a helper. At most one file comes along.
type request struct {
	ID    uint64 `json:"id"`
	Call  call   `json:"call"`
	Place Place  `json:"place"`
	Flags int    `json:"flags,omitempty"`
	Mode  uint32 `json:"mode,omitempty"`
	// Most is the number of bytes to read.
	Most int `json:"most,omitempty"`
	// Skip is the number of entries of a list that the caller has.
	Skip int `json:"skip,omitempty"`
	// Target is where a link leads.
	Target string `json:"target,omitempty"`
	// Keep lets a call change nothing.
	Keep bool `json:"keep,omitempty"`
}

// reply is the answer to a request. At most one file comes along.
type reply struct {
	ID uint64 `json:"id"`
	// Errno is the number of the kernel's error; Message is any error in words. Both are empty for success.
	Errno   unix.Errno    `json:"errno,omitempty"`
	Message string        `json:"message,omitempty"`
	Info    Info          `json:"info,omitzero"`
	Names   [][]byte      `json:"names,omitempty"` // JSON replaces bytes that are not UTF-8
	Types   []fs.FileMode `json:"types,omitempty"`
	Data    []byte        `json:"data,omitempty"`
	More    bool          `json:"more,omitempty"`
	Place   Place         `json:"place,omitzero"`
	Tree    Tree          `json:"tree,omitzero"`
}

// fail puts an error into a reply.
func (r *reply) fail(err error) {
	if err == nil {
		return
	}
	const longest = 2 << 10
	r.Message = err.Error()
	if len(r.Message) > longest {
		r.Message = r.Message[:longest]
	}
	_ = errors.As(err, &r.Errno)
}

// err is the error of a reply. It satisfies errors.Is for errors of the kernel.
func (r *reply) err() error {
	switch {
	case r.Errno != 0:
		return &remoteError{message: r.Message, cause: r.Errno}
	case r.Message != "":
		return errors.New(r.Message)
	}
	return nil
}

// remoteError is an error of the kernel in a helper.
type remoteError struct {
	message string
	cause   unix.Errno
}

// Error implements error.
func (e *remoteError) Error() string { return e.message }

// Unwrap returns the kernel's error.
func (e *remoteError) Unwrap() error { return e.cause }

// errLong reports a message that is longer than allowed, which the socket has cut.
var errLong = errors.New("the message is too long")

// send writes one message. The socket keeps the bounds of messages. Blocks while the other side does not
// read; the file's deadline ends that.
func send(socket *os.File, v any, most int, file *os.File) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > most {
		return fmt.Errorf("%w: it has %d bytes, and %d are allowed", errLong, len(data), most)
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = unix.Sendmsg(int(fd), data, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	return errors.Join(err, failed)
}

// receive reads one message, and the file that comes along. A message with more files is an error.
func receive(socket *os.File, v any, most int) (file *os.File, err error) {
	data, oob := make([]byte, most+1), make([]byte, unix.CmsgSpace(4*4))
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n, oobn, flags int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, oobn, flags, _, failed = unix.Recvmsg(int(fd), data, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	files, err := filesOf(oob[:oobn])
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	switch {
	case err != nil:
		return nil, err
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || n > most:
		return nil, errLong
	case n == 0:
		return nil, io.EOF
	case len(files) > 1:
		return nil, fmt.Errorf("the message has %d files, and one is allowed", len(files))
	}
	if err = json.Unmarshal(data[:n], v); err != nil {
		return nil, err
	}
	if len(files) == 1 {
		file = files[0]
	}
	return file, nil
}

// filesOf takes over the files of a control message. It asks no file server about them.
func filesOf(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		fds, failed := unix.ParseUnixRights(&messages[i])
		err = errors.Join(err, failed)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "file of a user"))
		}
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Info describes a file.
type Info struct {
	Mode fs.FileMode `json:"mode"`
	Size int64       `json:"size"`
	UID  uint32      `json:"uid"`
	// Dev is the number of the file system that it is on.
	Dev uint64 `json:"dev"`
}

// Entry is one entry of a folder.
type Entry struct {
	// Name may have any bytes but / and 0.
	Name string
	// Type has the bits of the kind alone.
	Type fs.FileMode
}
