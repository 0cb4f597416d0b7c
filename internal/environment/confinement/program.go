//go:build linux

package confinement

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/node/process"
)

// HomeFolder is the home folder of a program, in its scratch folder.
const HomeFolder = "home"

// longest is the length, in bytes, of the longest line that is read.
const longest = 64 << 10

// Program is a program of a build.
type Program struct {
	Argv []string
	// Env is the whole environment, to which Run adds HOME and TMPDIR.
	Env []string
	// Scratch is a folder for the program's temporary files, which it sees as the
	// machine's, too, and its working directory. Its home folder is HomeFolder in
	// it. Empty: it has none of these.
	Scratch string
	// Writable are the other folders that the program may write to.
	Writable []string
	// Readable are files and folders that the program needs, even where they are
	// in hidden folders. Run leaves out paths that do not exist.
	Readable []string
	// Hidden are folders that the program does not see, beside those of all.
	Hidden []string
	// Lock is a file that is locked until all processes of the program have ended,
	// also where Muster is killed.
	Lock string
	// AsJob runs the program with the files and the user that containers of jobs
	// have. It is for programs that a job is about to run.
	AsJob bool
	// User is the user of the machine who asked for the build, or whose job it is: the program runs as this
	// user, also where programs are not confined. Nil: the user of builds, or Muster's own.
	User *User
}

// User is a user of the machine.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// set makes a program run as the user, without a way to gain rights.
func (u *User) set(s *process.Spec) {
	if u == nil {
		return
	}
	s.UID, s.GID, s.Groups, s.NoNewPrivileges = &u.UID, &u.GID, u.Groups, true
}

// Error is the failure of a program.
type Error struct {
	exit  process.Exit
	limit int64
}

// Killed reports whether a signal ended the program.
func (e *Error) Killed() bool { return e.exit.Signal != 0 }

// Error describes how the program ended.
func (e *Error) Error() string {
	switch {
	case e.exit.OOMKilled:
		return fmt.Sprintf("it needs more memory than a build may use on this machine, %.1f GiB", float64(e.limit)/(1<<30))
	case e.exit.Err != "":
		return e.exit.Err
	}
	return fmt.Sprintf("it ended with exit code %d", e.exit.Code)
}

// Run runs a program, and passes each line of its output to line, cut after 64 KiB. It
// returns once all processes of the program have ended. If the program fails, the error
// is an *[Error]. If ctx ends, Run kills all these processes.
func (c *Confinement) Run(ctx context.Context, p Program, line func(string)) error {
	if err := c.makeHome(p); err != nil {
		return err
	}
	name := "build-" + strings.ToLower(rand.Text())
	spec := process.Spec{
		ID: name + "/program/0", PodUID: name, Container: "program", Argv: p.Argv, Dir: p.Scratch,
		Env: p.Env, Limits: c.limits, Tethered: true,
	}
	if p.Scratch != "" {
		spec.Env = append(slices.Clone(p.Env), "HOME="+filepath.Join(p.Scratch, HomeFolder), "TMPDIR="+p.Scratch)
	}
	if p.Lock != "" {
		spec.Locks = []string{p.Lock}
	}
	c.confine(&spec, p)
	p.User.set(&spec)
	defer func() { _ = os.RemoveAll(filepath.Join(c.dir, name)) }() // the processes of the folder have ended
	started, err := c.runtime.Start(ctx, spec)
	var refused *process.StartError
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // no program runs; the code below kills a program that started after ctx ended
	case errors.As(err, &refused) && refused.Reason == process.ReasonNotExecutable && spec.UID != nil:
		return fmt.Errorf("starting %s: %w; it runs as user %d: let that user read and execute the program, and the folders above it", p.Argv[0], err, *spec.UID)
	case errors.As(err, &refused):
		return fmt.Errorf("starting %s: %w", p.Argv[0], err)
	case err != nil:
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = started.Kill(context.WithoutCancel(ctx)) })
	defer stop()
	heard := hear(started, line)
	<-started.Done()
	exit := started.Exit()
	if err := errors.Join(heard, started.Remove()); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running %s: %w", p.Argv[0], err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case exit.Code != 0 || exit.Err != "":
		e := &Error{exit: exit}
		if c.limits != nil {
			e.limit = c.limits.MemoryBytes
		}
		return e
	}
	return nil
}

// makeHome makes the program's home folder.
func (c *Confinement) makeHome(p Program) error {
	if p.Scratch == "" {
		return nil
	}
	home := filepath.Join(p.Scratch, HomeFolder)
	err := os.Mkdir(home, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil // an earlier program may have put anything there
	}
	if err != nil {
		return fmt.Errorf("making a home folder for the build: %w", err)
	}
	return c.Give(home)
}

// confine gives a program namespaces, files and a user of its own, where this
// machine lets it.
func (c *Confinement) confine(s *process.Spec, p Program) {
	if c.reason != "" {
		return
	}
	s.Isolation = &process.Isolation{HideGPUs: true}
	if p.AsJob {
		return
	}
	id := uint32(builder)
	s.UID, s.GID, s.NoNewPrivileges = &id, &id, true
	s.Isolation.ReadOnlyRoot = true
	hidden := append(places(p.Hidden), c.hidden...)
	add := func(m process.Mount) { s.Isolation.Mounts = append(s.Isolation.Mounts, m) }
	for _, at := range hidden {
		add(process.Mount{Tmpfs: true, ReadOnly: true, Target: at})
	}
	for _, at := range places([]string{"/tmp", "/var/tmp"}) {
		add(process.Mount{Source: p.Scratch, Target: at})
		hidden = append(hidden, at)
	}
	// Both the path of a file and the target of its links may lie in a hidden folder.
	for _, at := range unique(append(slices.Clone(p.Readable), places(p.Readable)...)) {
		if _, err := os.Stat(at); err == nil && within(at, hidden) {
			add(process.Mount{Source: at, Target: at, ReadOnly: true})
		}
	}
	for _, at := range append([]string{p.Scratch}, p.Writable...) {
		add(process.Mount{Source: at, Target: at})
	}
}

// unique sorts the paths and removes duplicates, so that inner mounts follow outer ones.
func unique(paths []string) []string {
	slices.Sort(paths)
	return slices.Compact(paths)
}

// within reports whether a path is one of these folders, or in one.
func within(path string, folders []string) bool {
	for _, folder := range folders {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// hear passes the lines of a program to line, until the program ends.
func hear(p *process.Process, line func(string)) error {
	// The end of the program ends the log, also where the caller's context ends before.
	logs, err := p.Logs(context.Background(), process.LogQuery{Follow: true, Tail: -1})
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	in := bufio.NewReaderSize(logs, longest)
	for cut := false; ; {
		text, more, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !cut {
			line(strings.TrimRight(string(text), "\r"))
		}
		cut = more
	}
}
