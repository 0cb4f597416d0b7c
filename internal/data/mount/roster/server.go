package roster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/mount"
)

const (
	// word is the file on which a server says that it serves, or why it does not.
	word = 3
	// ready is what it says then.
	ready = "ready\n"
	// mostSaid is how much of what a server says is read.
	mostSaid = 4 << 10
)

// start starts a server, in a session of its own, so that it outlives this process,
// and waits until it serves.
func (r *Roster) start(ctx context.Context, name string) error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, theirs.Close())
	}
	log, err := os.OpenFile(r.path(name, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Join(err, theirs.Close(), null.Close())
	}
	server, err := os.StartProcess(r.server[0], append(r.server[:len(r.server):len(r.server)], r.path(name)), &os.ProcAttr{
		// What it needs is in its arguments; who unmounts for users is in the path.
		Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")},
		Files: []*os.File{null, log, log, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	err = errors.Join(err, theirs.Close(), null.Close(), log.Close())
	if server == nil {
		return fmt.Errorf("starting a server: %w", err)
	}
	go func() { _, _ = server.Wait() }() // it ends when it is unmounted
	stop := context.AfterFunc(ctx, func() { _ = ours.Close() })
	defer stop()
	said, err := io.ReadAll(io.LimitReader(ours, mostSaid))
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the next one finds what it has made of it
	case string(said) == ready:
		return nil
	case len(said) == 0:
		return fmt.Errorf("its server ended without a word: %s", r.lastLog(name))
	}
	return errors.Join(errors.New(strings.TrimSpace(string(said))), err)
}

// lastLog is the end of what a server said.
func (r *Roster) lastLog(name string) string {
	text, err := os.ReadFile(r.path(name, logFile))
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-500):]))
}

// Source opens what an order names; release gives it back.
type Source func(ctx context.Context, o Order) (view *data.View, release func(), err error)

// Serve is a server: it mounts what the order in a folder says, tells whoever started
// it by file 3, and serves until it is unmounted or ctx ends, which unmounts.
func Serve(ctx context.Context, folder string, open Source) error {
	answer := os.NewFile(word, "answer")
	err := serve(ctx, folder, open, func() {
		_, _ = io.WriteString(answer, ready) // nobody may hear it any more
		_ = answer.Close()
	})
	if err != nil {
		_, _ = io.WriteString(answer, err.Error()+"\n")
	}
	return err
}

func serve(ctx context.Context, folder string, open Source, tell func()) error {
	var o Order
	text, err := os.ReadFile(filepath.Join(folder, orderFile))
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return fmt.Errorf("reading what is to be mounted: %w", err)
	}
	view, release, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer release()
	m, err := take(ctx, folder, view, o)
	if err != nil {
		return err
	}
	tell()
	if m == nil {
		return nil // another one serves
	}
	select {
	case <-m.Done():
		return nil
	case <-ctx.Done():
		_, err := m.Close()
		return err
	}
}

// take mounts, unless another server does already; nil then. The file that says that
// this process lives stays open, and locked, until it ends.
func take(ctx context.Context, folder string, view *data.View, o Order) (*mount.Mount, error) {
	unlock, err := lock(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if serves, err := live(folder); err != nil || serves {
		return nil, err
	}
	point := filepath.Join(folder, filesFolder)
	if err := clear(point); err != nil {
		return nil, err
	}
	if err := announce(filepath.Join(folder, aliveFile)); err != nil {
		return nil, err
	}
	return mount.Open(ctx, mount.Options{
		View: view, Path: o.Path, Point: point,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// announce makes a file anew and locks it for as long as this process lives: one that
// another server made, which is unmounted and only serves what is still open, stays
// locked by that, and nobody looks at it any more.
func announce(path string) error {
	if err := gone(os.Remove(path)); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	return nil
}
