package rig

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is far beyond what any process takes that a test waits for.
const patience = 20 * time.Second

// Pipe is a named pipe between a test and a process, for one direction: a word
// in it is the signal for which the other side waits without polling.
type Pipe struct {
	t      testing.TB
	path   string
	file   *os.File
	reader *bufio.Reader
}

// NewPipe makes a pipe that goes with the test.
func NewPipe(t testing.TB) *Pipe {
	t.Helper()
	p := &Pipe{t: t, path: filepath.Join(t.TempDir(), "pipe")}
	if err := unix.Mkfifo(p.path, 0o666); err != nil {
		t.Fatal("making a pipe: ", err)
	}
	// Both ends are open here, so that no process meets its end, or waits for
	// the other end to be opened.
	file, err := os.OpenFile(p.path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal("opening a pipe: ", err)
	}
	t.Cleanup(func() { _ = file.Close() })
	p.file, p.reader = file, bufio.NewReader(file)
	return p
}

// Path is the pipe's file, for programs other than a shell.
func (p *Pipe) Path() string { return p.path }

// Say is a piece of shell that says a word to the test; "$$" is its number.
func (p *Pipe) Say(word string) string { return "echo " + word + " > " + p.path }

// Hear returns the next word that a process says.
func (p *Pipe) Hear() string {
	p.t.Helper()
	if err := p.file.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.reader.ReadString('\n')
	if err != nil {
		p.t.Fatalf("waiting for a word of a process: %v", err)
	}
	return strings.TrimSpace(line)
}

// Await is a piece of shell that waits until the test calls Open.
func (p *Pipe) Await() string { return "read -r go < " + p.path }

// Open lets one process that waits go on, or the next that will wait.
func (p *Pipe) Open() {
	p.t.Helper()
	if _, err := p.file.WriteString("go\n"); err != nil {
		p.t.Fatal(err)
	}
}
