package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// show runs produce, writes its events to kept, and shows them by gotestsum. Its outcome is
// theirs: a failed test, or a process that ended without its events.
func (o options) show(ctx context.Context, kept io.Writer, produce func(context.Context, io.Writer) error) error {
	if o.gotestsum == "" {
		return produce(ctx, io.MultiWriter(kept, o.out))
	}
	// Not CommandContext: it ends when its input does, and tells the outcome until then.
	viewer := exec.Command(o.gotestsum, "--format", "pkgname-and-test-fails", "--raw-command", "--", "cat") //nolint:noctx // see above
	viewer.Stdout, viewer.Stderr = o.out, os.Stderr
	input, err := viewer.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting gotestsum: %w", err)
	}
	if err := viewer.Start(); err != nil {
		return fmt.Errorf("starting gotestsum: %w", err)
	}
	produced := produce(ctx, io.MultiWriter(kept, input))
	closed := input.Close()
	shown := viewer.Wait()
	var exit *exec.ExitError
	if errors.As(shown, &exit) || errors.Is(produced, errFailed) {
		return errFailed // gotestsum has shown which
	}
	return errors.Join(produced, closed, shown)
}

// lines writes whole lines of several writers to one, each at once.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// writer returns a writer of one of them. Closing it writes what is left of its last line.
func (l *lines) writer() *lineWriter { return &lineWriter{lines: l} }

type lineWriter struct {
	lines *lines
	rest  []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := 0
	for i := len(w.rest) - 1; i >= 0; i-- {
		if w.rest[i] == '\n' {
			end = i + 1
			break
		}
	}
	if end == 0 {
		return len(p), nil
	}
	w.lines.mu.Lock()
	_, err := w.lines.to.Write(w.rest[:end])
	w.lines.mu.Unlock()
	w.rest = append([]byte(nil), w.rest[end:]...)
	return len(p), err
}

func (w *lineWriter) Close() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}
