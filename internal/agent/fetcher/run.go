//go:build linux

package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

const (
	// again is the pause before a restart of the process. It doubles up to lastAgain, and
	// starts at again after a process that ran for steady.
	again, lastAgain, steady = time.Second, 30 * time.Second, time.Minute
	// connections bounds the connections from the process to the agent. Two parts and code
	// are fetched at a time, with 8 readers each.
	connections = 64
	// headerBytes bounds the header of a request.
	headerBytes = 8 << 10
)

// Run keeps the process running until the context ends. InUse names the entries of the cache
// that are not removed, by their scoped keys; nil: none. Run is called once.
func (f *Fetcher) Run(ctx context.Context, inUse func() map[string]bool) error {
	defer func() { _ = errors.Join(f.requests.Close(), f.sockets.Close()) }()
	if inUse != nil {
		f.upstream.mu.Lock()
		f.upstream.inUse = inUse
		f.upstream.mu.Unlock()
	}
	socket, err := f.listen(ctx, agentSocket)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	listener := netutil.LimitListener(socket, connections)
	server := &http.Server{Handler: f.upstream.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: headerBytes}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("answering the fetcher: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		f.supervise(ctx)
		return nil
	})
	return group.Wait()
}

// supervise starts the process, and starts it again when it ends.
func (f *Fetcher) supervise(ctx context.Context) {
	for pause := again; ctx.Err() == nil; pause = min(2*pause, lastAgain) {
		began := time.Now()
		err := f.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steady {
			pause = again
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		f.options.Log.Error("the fetcher ended; it is started again", "error", err, "pause", pause)
		f.setEnded(err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		f.setEnded(nil)
	}
}

// setEnded records the error by which the process ended; nil: the process runs, or starts.
func (f *Fetcher) setEnded(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = err
}

// runOnce runs the process to its end.
func (f *Fetcher) runOnce(ctx context.Context) error {
	for _, folder := range f.folders() {
		if err := chown(ctx, folder.dir, folder.kind == parts); err != nil {
			return err
		}
	}
	cmd, life, err := f.command(ctx)
	if err != nil {
		return err
	}
	err = cmd.Start()
	for _, file := range cmd.ExtraFiles[1:] {
		if file != f.sockets {
			_ = file.Close()
		}
	}
	_ = cmd.ExtraFiles[0].Close()
	if err != nil {
		return errors.Join(fmt.Errorf("starting the fetcher: %w", err), life.Close())
	}
	defer func() { _ = life.Close() }()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the fetcher: %w", err)
	}
	return nil
}

// command returns the process, which ctx kills, and the pipe by which the process ends with the
// agent. The caller closes its files after the start, but for the folder of sockets.
func (f *Fetcher) command(ctx context.Context) (_ *exec.Cmd, life io.Closer, err error) {
	var files []*os.File
	defer func() {
		if err == nil {
			return
		}
		for _, file := range files {
			if file != f.sockets {
				_ = file.Close()
			}
		}
	}()
	requests, err := f.requests.File()
	if err != nil {
		return nil, nil, fmt.Errorf("starting the fetcher: %w", err)
	}
	files = append(files, requests, f.sockets)
	in, out, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("starting the fetcher: %w", err)
	}
	files = append(files, in)
	var kinds []string
	for _, folder := range f.folders() {
		dir, err := os.Open(folder.dir)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("starting the fetcher: %w", err), out.Close())
		}
		files, kinds = append(files, dir), append(kinds, string(folder.kind))
	}
	// The link works also if the user of the process cannot reach the path of the program.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append(append([]string{}, f.options.Program...),
		"--folders="+strings.Join(kinds, ","), "--limit="+strconv.FormatInt(f.options.Limit, 10))...)
	cmd.ExtraFiles, cmd.Stderr, cmd.Env, cmd.Dir = files, &logWriter{log: f.options.Log}, []string{"TZ=UTC"}, "/"
	cmd.SysProcAttr = rights()
	return cmd, out, nil
}
