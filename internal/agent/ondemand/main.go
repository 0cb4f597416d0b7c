//go:build linux

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
		if !said(*ready) {
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
	all, err := hear(ctx, conn)
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := serveOne(ctx, store, h, log); err != nil {
			return err
		}
	}
	held, err := say(ready)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
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

// handed is a mount that is to be served, and its device.
type handed struct {
	Attached

	device *os.File
}

// hear is all that comes on a connection. An agent that ends in the middle has left
// mounts out: a member would find empty folders, and take them for its data.
func hear(ctx context.Context, conn *net.UnixConn) (all []handed, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() {
		if err == nil {
			return
		}
		for _, h := range all {
			_ = h.device.Close() // nobody serves it
		}
	}()
	for more := 1; more > 0; {
		a, device, err := Receive(conn)
		if errors.Is(err, io.EOF) {
			return all, fmt.Errorf("the agent has handed over %d mounts of this pod and ended before the next: it is asked again", len(all))
		}
		if err != nil {
			return all, err
		}
		all, more = append(all, handed{Attached: a, device: device}), a.More
	}
	return all, nil
}

// serveOne serves one mount for as long as this process lives.
func serveOne(ctx context.Context, store *data.Store, h handed, log *slog.Logger) error {
	err := persist(ctx, log, "reading "+h.Words, func() error {
		view, err := store.Dataset(&ref.Memory{}).At(ctx, h.Commit)
		if err != nil {
			return fmt.Errorf("reading commit %s: %w", h.Commit, err)
		}
		_, err = mount.Serve(ctx, mount.Options{View: view, Path: h.Path, Point: h.Words, Patience: patience, Log: log}, h.device)
		return err
	})
	if err = errors.Join(err, h.device.Close()); err != nil {
		return err
	}
	log.Info("serving", "data", h.Words, "commit", h.Commit, "path", h.Path)
	return nil
}

// persist tries again what fails, but for what is not there, or not any more.
func persist(ctx context.Context, log *slog.Logger, what string, try func() error) error {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, mount.ErrUnservable) || time.Now().Add(pause).After(deadline) {
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
