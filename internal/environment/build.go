//go:build linux

package environment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The content of an environment's home.
const (
	venvDir          = "venv"
	scratchDir       = "tmp"
	markerFile       = ".ready"
	requirementsFile = "requirements.txt"
	freezeFile       = "lock"
	logFile          = "build.log"
	buildLock        = ".building"
	reserveFile      = ".reserved"
	useFile          = ".used"
)

// lockPoll is how often another process's build is looked at.
const lockPoll = 200 * time.Millisecond

// build is one environment being built.
type build struct {
	home, key    string
	python       interpreter
	requirements string
	tell         func(State)
	now          func() time.Time

	held  *os.File // the lock; the installer inherits it
	log   *os.File
	total int
}

func (b *build) path() string { return filepath.Join(b.home, venvDir) }

// scratch is where the installer unpacks: beside what it installs, where there has to
// be room anyway, and where nothing stays behind for good if it is killed.
func (b *build) scratch() string { return filepath.Join(b.home, scratchDir) }

func (b *build) say(format string, args ...any) {
	b.tell(State{Phase: Building, Key: b.key, Message: fmt.Sprintf(format, args...)})
}

// run builds the environment at its final place, since virtual environments
// hold their own path and cannot be moved.
func (b *build) run(ctx context.Context) error {
	// 1. One builder a key, whichever process asks.
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer func() { _ = b.held.Close() }()
	if _, ok := readyAt(b.home); ok {
		note(b.home, reserveFile, b.now())
		return nil // somebody else built it meanwhile
	}
	// 2. Away with what an interrupted or failed build left.
	for _, name := range []string{markerFile, venvDir, scratchDir} {
		if err := os.RemoveAll(filepath.Join(b.home, name)); err != nil {
			return fmt.Errorf("removing an unfinished environment: %w", err)
		}
	}
	if err := os.Mkdir(b.scratch(), 0o700); err != nil {
		return fmt.Errorf("making a folder for what the installer unpacks: %w", full(err))
	}
	err := b.install(ctx)
	_ = os.RemoveAll(b.scratch())
	if err != nil {
		_ = os.RemoveAll(b.path())
		return err
	}
	// 3. Everything on disk before the marker says so.
	b.say("making the environment last on disk")
	return b.mark()
}

// install makes the virtual environment and puts the packages in.
func (b *build) install(ctx context.Context) error {
	file := filepath.Join(b.home, requirementsFile)
	// The file may hold a password of an index.
	if err := os.WriteFile(file, []byte(b.requirements), 0o600); err != nil {
		return fmt.Errorf("writing the requirements: %w", full(err))
	}
	log, err := os.OpenFile(filepath.Join(b.home, logFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the build's log: %w", full(err))
	}
	b.log = log
	defer func() { _ = log.Close() }()

	b.say("making a virtual environment with Python %s", b.python.Version)
	words := &pipWords{}
	if err := b.command(ctx, words.line, b.python.Executable, "-m", "venv", b.path()); err != nil {
		return venvError(err, words, b.python)
	}
	pip := []string{filepath.Join(b.path(), "bin", "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"}
	if b.requirements != "" {
		watch := &pipProgress{tell: func(message string, done, total int) {
			b.total = total
			b.tell(State{Phase: Building, Key: b.key, Message: message, Done: done, Total: total})
		}, installed: func() int { return countInstalled(b.path()) }}
		words = &pipWords{}
		stop := watch.start(ctx)
		err := b.command(ctx, func(line string) { words.line(line); watch.line(line) },
			append(pip, "install", "--no-compile", "--progress-bar", "off", "--no-color", "-r", file)...)
		stop()
		if err != nil {
			return fmt.Errorf("installing the requirements: %s", words.explain(err))
		}
		if err := b.compile(ctx); err != nil {
			return err
		}
	}
	var frozen strings.Builder
	if err := b.command(ctx, func(line string) { frozen.WriteString(line + "\n") }, append(pip, "freeze", "--all")...); err != nil {
		return fmt.Errorf("listing what was installed: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.home, freezeFile), []byte(Mask(frozen.String())), 0o644); err != nil {
		return fmt.Errorf("writing what was installed: %w", full(err))
	}
	return nil
}

// command runs a program and hands over its lines. The program ends with us:
// if we are killed, the kernel kills it, and until it is gone it holds the
// lock, so that nobody builds over it.
func (b *build) command(ctx context.Context, line func(string), argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(pythonEnviron(os.Environ()), "PIP_NO_INPUT=1", "TMPDIR="+b.scratch())
	cmd.Dir = b.home
	cmd.ExtraFiles = []*os.File{b.held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	defer func() { _ = read.Close() }()
	cmd.Stdout, cmd.Stderr = write, write

	ended := make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		// The kernel takes the end of the thread that started a program for
		// the end of its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = write.Close()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	lines := bufio.NewScanner(io.TeeReader(read, &masked{out: b.log}))
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		for lines.Scan() {
			line(strings.TrimRight(lines.Text(), "\r"))
		}
		_, _ = io.Copy(io.Discard, read)
	}()
	err = <-ended
	// A grandchild may still hold the pipe; what it has to say is of no use.
	_ = read.SetReadDeadline(time.Now().Add(2 * time.Second))
	<-scanned
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// masked writes lines to a log without the passwords in them.
type masked struct {
	out     io.Writer
	partial string
}

func (m *masked) Write(p []byte) (int, error) {
	m.partial += string(p)
	if i := strings.LastIndexByte(m.partial, '\n'); i >= 0 {
		_, err := io.WriteString(m.out, Mask(m.partial[:i+1]))
		m.partial = m.partial[i+1:]
		return len(p), err
	}
	return len(p), nil
}

// lock waits for the key's lock, in a folder that is the key's: it may have
// been pruned while it was waited for.
func (b *build) lock(ctx context.Context) error {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		if err := os.MkdirAll(b.home, 0o755); err != nil {
			return fmt.Errorf("making room for the environment: %w", full(err))
		}
		f, err := lockHome(b.home, unix.LOCK_EX)
		if err == nil {
			b.held = f
			return nil
		}
		if !errors.Is(err, errBusy) {
			return fmt.Errorf("locking the environment: %w", full(err))
		}
		b.say("another process is at work on this environment; waiting for it")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// mark says that the environment is complete.
func (b *build) mark() error {
	return markAt(b.home, marker{Path: b.path(), Python: b.python.Version, Created: b.now().UTC()})
}

// full says what to do about a disk that is full or read-only.
func full(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("the disk that holds Muster's data folder is full; free some space and try again: %w", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the disk that holds Muster's data folder is read-only: %w", err)
	}
	return err
}
