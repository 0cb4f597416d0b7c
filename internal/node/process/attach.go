package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// AttachOptions says what Attach is connected to.
type AttachOptions struct {
	// Stdin, Stdout and Stderr may be nil: unused. A Read of Stdin that is
	// under way when Attach returns is not waited for.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize brings new terminal sizes. It may be nil.
	Resize <-chan Size
}

// Attach connects to the main process's standard streams until the container
// or ctx ends. Output from before the call is not shown.
func (p *Process) Attach(ctx context.Context, o AttachOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Output first, so that no answer to the input is missed.
	entries, err := p.entries(ctx, true, 0)
	if err != nil {
		return fmt.Errorf("attaching to container %s: %w", p.spec.ID, err)
	}
	defer func() { _ = entries.close() }()
	helpers := make(chan error, 2)
	running := 0
	if o.Stdin != nil {
		running++
		go func() { helpers <- p.feed(ctx, cancel, o.Stdin) }()
	}
	if o.Resize != nil {
		running++
		go func() { helpers <- p.resizeFrom(ctx, o.Resize) }()
	}
	err = show(entries, o)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	cancel()
	for range running {
		if helperErr := <-helpers; err == nil && !errors.Is(helperErr, context.Canceled) && !errors.Is(helperErr, ErrEnded) {
			err = helperErr
		}
	}
	if err != nil {
		return fmt.Errorf("attaching to container %s: %w", p.spec.ID, err)
	}
	return nil
}

// show writes output to where it belongs until its end.
func show(entries *entryReader, o AttachOptions) error {
	for {
		e, err := entries.next(true)
		if err != nil {
			return err
		}
		to := o.Stdout
		if e.Stream == contract.Stderr {
			to = o.Stderr
		}
		if to == nil {
			continue
		}
		text := e.Text
		if !e.Partial {
			text = append(text, '\n') // over the line feed that ended the entry
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
}

// feed sends input to the container until the input, the container or ctx
// ends. What the shim refuses ends the attachment.
func (p *Process) feed(ctx context.Context, end context.CancelFunc, input io.Reader) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(struct{ io.Writer }{w}, input)
		_ = w.Close()
	}()
	err = p.ask(ctx, contract.Request{Op: contract.OpInput}, r)
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		if !errors.Is(err, ErrEnded) {
			end()
		}
	}
	return err
}

func (p *Process) resizeFrom(ctx context.Context, sizes <-chan Size) error {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return nil
			}
			if err := p.Resize(ctx, size); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
