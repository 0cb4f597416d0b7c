//go:build linux

package ondemand

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// What is at a desk.
const (
	// AttachSocket is a socket of packets: who connects is sent what it is to serve, and
	// then the connection ends.
	AttachSocket = "attach.sock"
	// ObjectsSocket is one of HTTP: GET and HEAD of ObjectsPath and the key of a pack or a
	// commit.
	ObjectsSocket = "objects.sock"
	// ObjectsPath is before the keys of objects.
	ObjectsPath = "/objects/"
)

// Attached is a mount that is to be served, and comes with its device.
type Attached struct {
	// Commit and Path are what it shows.
	Commit string `json:"commit"`
	Path   string `json:"path,omitempty"`
	// Words are what people call it.
	Words string `json:"words,omitempty"`
	// Error is why there is no device, where there is none.
	Error string `json:"error,omitempty"`
	// More is how many come after it. Who sends may end before that.
	More int `json:"more,omitempty"`
}

// longestPacket is more than an Attached ever has.
const longestPacket = 64 << 10

// Send sends a mount and its device; nil: there is none.
func Send(to *net.UnixConn, a Attached, device *os.File) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("sending a mount: %w", err)
	}
	var rights []byte
	if device != nil {
		rights = unix.UnixRights(int(device.Fd()))
	}
	if _, _, err := to.WriteMsgUnix(text, rights, nil); err != nil {
		return fmt.Errorf("sending a mount: %w", err)
	}
	return nil
}

// Receive receives what is sent next; after the last it returns [io.EOF].
func Receive(from *net.UnixConn) (a Attached, device *os.File, err error) {
	text, rights := make([]byte, longestPacket), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := from.ReadMsgUnix(text, rights)
	if errors.Is(err, io.EOF) || err == nil && n == 0 {
		return a, nil, io.EOF
	}
	if err != nil {
		return a, nil, fmt.Errorf("hearing what is to be served: %w", err)
	}
	device, err = deviceIn(rights[:m])
	if err != nil {
		return a, nil, err
	}
	err = json.Unmarshal(text[:n], &a)
	switch {
	case err != nil:
		err = fmt.Errorf("hearing what is to be served: %w", err)
	case a.Error != "":
		err = errors.New(a.Error)
	case device == nil:
		err = errors.New("hearing what is to be served: it came without a device")
	}
	if err != nil && device != nil {
		err = errors.Join(err, device.Close())
	}
	return a, device, err
}

// deviceIn is the file that came with a packet; nil: none did.
func deviceIn(rights []byte) (*os.File, error) {
	if len(rights) == 0 {
		return nil, nil //nolint:nilnil // who asks knows what that means
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("taking over the device of a mount: %w", err)
	}
	for i := range messages {
		files, err := unix.ParseUnixRights(&messages[i])
		if err == nil && len(files) == 1 {
			unix.CloseOnExec(files[0])
			return os.NewFile(uintptr(files[0]), "the device of a mount"), nil
		}
	}
	return nil, errors.New("taking over the device of a mount: something else came")
}
