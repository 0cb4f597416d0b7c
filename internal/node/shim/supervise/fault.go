package supervise

import (
	"fmt"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/execution"
)

// startError says why a command could not start.
type startError struct {
	reason  contract.Reason
	message string
}

// fault makes a startError.
func fault(reason contract.Reason, format string, args ...any) *startError {
	return &startError{reason, fmt.Sprintf(format, args...)}
}

// code is the exit code that a shell gives the case.
func (e *startError) code() int {
	switch e.reason {
	case contract.ReasonNotFound:
		return 127
	case contract.ReasonNotExecutable:
		return 126
	}
	return 128
}

// exit is the error as the container's, or a command's, exit.
func (e *startError) exit() *contract.Exit {
	return &contract.Exit{Code: e.code(), Reason: e.reason, Err: e.message}
}

// faultOf is the fault of a program's execution; nil: there was none.
func faultOf(f *execution.Fault) *startError {
	if f == nil {
		return nil
	}
	return &startError{f.Reason, f.Message}
}
