package execution

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// Verb is the one argument with which the shim's program is the second stage.
const Verb = "execute"

// The files that the second stage is started with, besides the standard ones.
const (
	orderFD  = 3
	statusFD = 4
)

// Order is what the second stage is told.
type Order struct {
	Program
	// Parent is the process that started the stage, as it sees itself. The stage ends where it
	// has another parent: the shim is gone.
	Parent int `json:"parent"`
	// UID, GID and Groups are the user to become: all of the groups, and no others.
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	// Owner is the rest of the user's session on a machine that several users share. Nil: the
	// program has what the shim has.
	Owner *contract.Owner `json:"owner,omitempty"`
	// Processes is RLIMIT_NPROC. 0: as the shim has it.
	Processes int64 `json:"processes,omitempty"`
}

// file returns the order as a file for the second stage, which closes with its execution.
func (o Order) file() (int, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return -1, fmt.Errorf("writing the order: %w", err)
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("making a file for the order: %w", err)
	}
	for len(data) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, data)
		data = data[max(n, 0):]
	}
	if err == nil {
		_, err = unix.Seek(fd, 0, 0)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("writing the order: %w", err)
	}
	return fd, nil
}

// receive reads the order in the second stage.
func receive() (Order, error) {
	var o Order
	file := os.NewFile(orderFD, "order")
	defer func() { _ = file.Close() }()
	if err := json.NewDecoder(file).Decode(&o); err != nil {
		return o, fmt.Errorf("reading the order: %w", err)
	}
	return o, nil
}
