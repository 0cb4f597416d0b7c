package ondemand

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/data/ref"
)

// Verb is the word by which a program is this one.
const Verb = "serve-data"

const (
	// patience is for how long what is read is asked for: an agent or a manager that is
	// replaced may take a while.
	patience = 10 * time.Minute
	// firstPause and lastPause are between two tries.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// unpackers is how many chunks are unpacked at once.
	unpackers = 2
)

// Main serves what the agent at a desk hands it until the context ends, and returns the
// exit code: 0, 1 where it cannot, 2 where it is called wrongly.
//
// With --ask it only says whether another process of the container serves: 0, or 1.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet(Verb, flag.ContinueOnError)
	flags.SetOutput(stderr)
	desk := flags.String("desk", "", "the folder by which the agent is reached")
	ready := flags.String("ready", "", "the file that says that everything is served")
	ask := flags.Bool("ask", false, "say whether that file is there")
	if flags.Parse(args) != nil || *ready == "" || *desk == "" && !*ask {
		_, _ = fmt.Fprintf(stderr, "usage: muster-worker %s --desk FOLDER --ready FILE, or --ask --ready FILE\n", Verb)
		return 2
	}
	if *ask {
		if _, err := os.Stat(*ready); err != nil {
			return 1
		}
		return 0
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if err := serve(ctx, *desk, *ready, log); err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintln(stderr, "muster:", err)
		return 1
	}
	return 0
}

// serve serves all that the agent has for this pod.
func serve(ctx context.Context, desk, ready string, log *slog.Logger) (err error) {
	if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return fmt.Errorf("removing what another one left: %w", err)
	}
	store, err := data.Open(ctx, data.Options{Backend: objects(desk), Workers: unpackers})
	if err != nil {
		return fmt.Errorf("opening the store of data: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var conn *net.UnixConn
	if err := persist(ctx, log, "reaching the agent", func() error {
		conn, err = dial(ctx, filepath.Join(desk, AttachSocket))
		return err
	}); err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	served, err := serveAll(ctx, store, conn, log)
	if err != nil {
		return err
	}
	if err := os.WriteFile(ready, fmt.Appendf(nil, "%d\n", served), 0o644); err != nil {
		return fmt.Errorf("saying that everything is served: %w", err)
	}
	<-ctx.Done() // with this process the devices are closed, and the mounts end
	return nil
}

// dial connects to a socket of packets.
func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", path)
	if err != nil { // that there is no socket now does not say that there will be none
		return nil, errors.New(err.Error())
	}
	return conn.(*net.UnixConn), nil
}

// serveAll serves what comes on a connection, and returns how many mounts that is.
func serveAll(ctx context.Context, store *data.Store, conn *net.UnixConn, log *slog.Logger) (served int, err error) {
	for {
		a, device, err := Receive(conn)
		if errors.Is(err, io.EOF) && served > 0 {
			return served, nil
		}
		if err != nil {
			return 0, fmt.Errorf("hearing what is to be served: %w", err)
		}
		err = persist(ctx, log, "reading "+a.Words, func() error { return serveOne(ctx, store, a, device, log) })
		if err = errors.Join(err, device.Close()); err != nil {
			return 0, err
		}
		served++
		log.Info("serving", "data", a.Words, "commit", a.Commit, "path", a.Path)
	}
}

// serveOne serves one mount for as long as this process lives. The device stays open.
func serveOne(ctx context.Context, store *data.Store, a Attached, device *os.File, log *slog.Logger) error {
	view, err := store.Dataset(&ref.Memory{}).At(ctx, a.Commit)
	if err != nil {
		return fmt.Errorf("reading commit %s: %w", a.Commit, err)
	}
	_, err = mount.Serve(ctx, mount.Options{View: view, Path: a.Path, Point: a.Words, Patience: patience, Log: log}, device)
	return err
}

// persist tries again what fails, but for what is not there.
func persist(ctx context.Context, log *slog.Logger, what string, try func() error) error {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || time.Now().Add(pause).After(deadline) {
			return fmt.Errorf("%s: %w", what, err)
		}
		log.Warn(what+"; it is tried again", "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
