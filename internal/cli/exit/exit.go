package exit

import (
	"context"
	"errors"
	"fmt"
)

// Code is a process's exit status.
type Code int

// The documented codes.
const (
	// OK means that what was asked for was done.
	OK Code = 0
	// Failure is any error without a code of its own.
	Failure Code = 1
	// Misuse means that the command line makes no sense; nothing was done.
	Misuse Code = 2
	// Missing means that what was named does not exist, or that no Muster is
	// running.
	Missing Code = 3
	// Deadline means that the job was stopped by its time limit.
	Deadline Code = 124
	// Interrupted means that ^C ended the command.
	Interrupted Code = 130
)

// Row is one line of the table of exit codes.
type Row struct {
	// Code is the exit status, as printed.
	Code string
	// Meaning says in a sentence when it is returned.
	Meaning string
}

// Table lists every exit code with its meaning, in order.
func Table() []Row {
	return []Row{
		{"0", "done; for run and logs -f: the job succeeded"},
		{"1", "an error, told on standard error; for run and logs -f: the job failed and has several members"},
		{"2", "the command line makes no sense; nothing was done"},
		{"3", "what was named does not exist, or no Muster is running here"},
		{"124", "run and logs -f: the job was stopped by its time limit (--max-time)"},
		{"130", "interrupted by ^C"},
		{"other", "run and logs -f: the exit code of the script of a job with one member; shell: of the command that ran"},
	}
}

// Error is an error with an exit code.
type Error struct {
	// Code is the exit status that the program shall end with.
	Code Code
	// Err is what is told to the user; nil says nothing more than the code.
	Err error
}

// Error returns the wrapped error's words, or the bare code.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// With gives err the exit code. err may be nil: the program then ends with the
// code and says nothing.
func With(code Code, err error) error { return &Error{Code: code, Err: err} }

// Usage makes an error of code [Misuse] from a format.
func Usage(format string, args ...any) error {
	return &Error{Code: Misuse, Err: fmt.Errorf(format, args...)}
}

// NotFound makes an error of code [Missing] from a format.
func NotFound(format string, args ...any) error {
	return &Error{Code: Missing, Err: fmt.Errorf(format, args...)}
}

// Of returns the code that the program shall end with for err, and whether
// there is anything left to say about it.
func Of(err error) (code Code, say bool) {
	if err == nil {
		return OK, false
	}
	if coded, ok := errors.AsType[*Error](err); ok {
		return coded.Code, coded.Err != nil
	}
	if errors.Is(err, context.Canceled) {
		return Interrupted, false
	}
	return Failure, true
}
