package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a program on a pseudo-terminal of its own, as a person runs it:
// keys go through the kernel's line discipline, so that ^C is a signal until
// the program decides otherwise.
type Terminal struct {
	t      testing.TB
	cmd    *exec.Cmd
	master *os.File
	// slave stays open, so that its modes can be read after the program.
	slave *os.File
	ended chan struct{}

	mu     sync.Mutex
	output []byte
	read   int
}

// OnTerminal starts cmd on a terminal of so many rows and columns. It is
// killed at the end of the test if it has not ended.
func OnTerminal(t testing.TB, cmd *exec.Cmd, rows, columns int) *Terminal {
	t.Helper()
	master, slave, err := openTerminal()
	if err != nil {
		t.Fatal(err)
	}
	x := &Terminal{t: t, cmd: cmd, master: master, slave: slave, ended: make(chan struct{})}
	x.Resize(rows, columns)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		x.keep()
	}()
	go func() {
		defer close(x.ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-x.ended
		_ = errors.Join(slave.Close(), master.Close())
		<-reading
		if t.Failed() {
			t.Logf("%v showed %q", cmd.Args, x.output)
		}
	})
	return x
}

// openTerminal makes a pseudo-terminal.
func openTerminal() (master, slave *os.File, err error) {
	// Not blocking, so that closing it ends a read.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening a terminal: %w", err), master.Close())
	}
	return master, slave, nil
}

// keep keeps what the program shows until the terminal is closed.
func (x *Terminal) keep() {
	buffer := make([]byte, 4096)
	for {
		n, err := x.master.Read(buffer)
		x.mu.Lock()
		x.output = append(x.output, buffer[:n]...)
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Type presses keys: "\r" is return, "\x03" is ^C.
func (x *Terminal) Type(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatalf("typing %q: %v", keys, err)
	}
}

// Resize gives the terminal another size.
func (x *Terminal) Resize(rows, columns int) {
	x.t.Helper()
	if err := unix.IoctlSetWinsize(int(x.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}); err != nil {
		x.t.Fatalf("resizing the terminal: %v", err)
	}
}

// Expect waits until the terminal has shown the words since the words that
// were expected last, and returns everything shown between them.
func (x *Terminal) Expect(words string) (shown string) {
	x.t.Helper()
	Eventually(x.t, 20*time.Second, fmt.Sprintf("waiting until the terminal shows %q", words), func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		rest := string(x.output[x.read:])
		before, _, found := strings.Cut(rest, words)
		if !found {
			return fmt.Errorf("it shows %q", rest)
		}
		shown = before
		x.read += len(before) + len(words)
		return nil
	})
	return shown
}

// Output is everything that was shown so far.
func (x *Terminal) Output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.output)
}

// Running reports whether the program has not ended.
func (x *Terminal) Running() bool {
	select {
	case <-x.ended:
		return false
	default:
		return true
	}
}

// Wait waits for the program's end and returns its exit code.
func (x *Terminal) Wait() int {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(20 * time.Second):
		x.t.Fatalf("%v has not ended", x.cmd.Args)
	}
	return x.cmd.ProcessState.ExitCode()
}

// Modes are the terminal's settings.
func (x *Terminal) Modes() unix.Termios {
	x.t.Helper()
	modes, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatalf("reading the terminal's modes: %v", err)
	}
	return *modes
}
