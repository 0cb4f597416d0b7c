package execution

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// Stage is a second stage that was started.
type Stage struct {
	// PID is the number of the process, which the program keeps.
	PID    int
	status *os.File
}

// self is the shim's own program, also where its path leads elsewhere by now.
const self = "/proc/self/exe"

// executing is the status of a stage that is about to execute the program.
const executing = 'x'

// Start starts a second stage. Attr has the standard files, and whatever holds for the process
// from its birth; its environment and folder are the shim's. The caller waits for the process.
func Start(o Order, attr syscall.ProcAttr) (*Stage, error) {
	order, err := o.file()
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(order) }()
	var status [2]int
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making a pipe for the status: %w", err)
	}
	defer func() { _ = unix.Close(status[1]) }()
	attr.Dir, attr.Env = "/", os.Environ()
	attr.Files = append(attr.Files[:3:3], uintptr(order), uintptr(status[1]))
	pid, err := syscall.ForkExec(self, []string{"muster-shim", Verb}, &attr)
	if err != nil {
		_ = unix.Close(status[0])
		return nil, err
	}
	_ = unix.SetNonblock(status[0], true)
	return &Stage{PID: pid, status: os.NewFile(uintptr(status[0]), "status")}, nil
}

// Executed waits until the program was executed, and returns nil, or why it was not. Then the
// process has ended, or is about to; but it goes on where stuck is true: it did not answer within
// the limit, since a server of files hangs, or its user has stopped it.
func (s *Stage) Executed(limit time.Duration) (f *Fault, stuck bool) {
	defer func() { _ = s.status.Close() }()
	err := s.status.SetReadDeadline(time.Now().Add(limit))
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(s.status, 1<<20))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault(contract.ReasonDirectory, "the working directory or the program could not be opened within %s: a file server may hang", limit), true
	}
	return answer(data, err), false
}

// answer reads the status of a stage that has ended, or executed its program.
func answer(data []byte, err error) *Fault {
	if err != nil {
		return fault(contract.ReasonInternal, "waiting for the program to be executed: %v", err)
	}
	if len(data) == 1 && data[0] == executing {
		return nil
	}
	if len(data) > 0 && data[0] == executing {
		data = data[1:]
	}
	var f Fault
	if len(data) == 0 || json.Unmarshal(data, &f) != nil {
		return fault(contract.ReasonInternal,
			"the process ended before it could execute the program: it was killed, or the limit of processes or of memory is too low for any program")
	}
	return &f
}

// Main is the second stage. It returns only if the program could not be executed.
func Main() int {
	status := os.NewFile(statusFD, "status")
	f := run(status)
	data, err := json.Marshal(f)
	if err == nil {
		_, err = status.Write(data)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "muster-shim:", err)
	}
	return 1
}
