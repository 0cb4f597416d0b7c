package execution

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// TestAnswers: the status of a second stage tells whether the program runs, also of a stage that was
// killed, and one that gives no answer is known.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		reason contract.Reason
		says   string
	}{
		"executed":                 {"x", "", ""},
		"refused":                  {`{"reason":"NotFound","message":"no such program"}`, contract.ReasonNotFound, "no such program"},
		"refused by the kernel":    {`x{"reason":"NotExecutable","message":"a directory"}`, contract.ReasonNotExecutable, "a directory"},
		"killed":                   {"", contract.ReasonInternal, "ended before it could execute"},
		"killed while it answered": {`{"reason":"NotF`, contract.ReasonInternal, "ended before it could execute"},
	} {
		s, end := piped(t)
		_, err := io.WriteString(end, c.status)
		if err := errors.Join(err, end.Close()); err != nil {
			t.Fatal(err)
		}
		f, stuck := s.Executed(time.Minute)
		if stuck || (f == nil) != (c.reason == "") || f != nil && (f.Reason != c.reason || !strings.Contains(f.Message, c.says)) {
			t.Errorf("%s: %+v, %t; want %s %q", name, f, stuck, c.reason, c.says)
		}
	}
	s, end := piped(t)
	defer func() { _ = end.Close() }()
	if f, stuck := s.Executed(time.Millisecond); !stuck || f == nil || f.Reason != contract.ReasonDirectory {
		t.Errorf("a stage that gives no answer: %+v, %t", f, stuck)
	}
}

// piped is a stage whose status the test writes.
func piped(t *testing.T) (*Stage, *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	return &Stage{status: os.NewFile(uintptr(fds[0]), "status")}, os.NewFile(uintptr(fds[1]), "status")
}

// TestUserPath: a program is the first in PATH that the user may execute.
func TestUserPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a": 0o644, "b": 0o755} {
		if err := errors.Join(os.Mkdir(dir+"/"+name, 0o755), os.WriteFile(dir+"/"+name+"/program", []byte("#!/bin/sh\n"), mode)); err != nil {
			t.Fatal(err)
		}
	}
	p := Program{Argv: []string{"program"}, Env: []string{"PATH=/nowhere", "PATH=/nowhere:a:" + dir + "/b"}, Dir: dir}
	if got, f := p.LookUp(); f != nil || got != dir+"/b/program" {
		t.Errorf("LookUp = %q, %+v", got, f)
	}
	p.Env = []string{"PATH=" + dir + "/a"}
	if _, f := p.LookUp(); f == nil || f.Reason != contract.ReasonNotExecutable {
		t.Errorf("a program that is not executable: %+v", f)
	}
}
