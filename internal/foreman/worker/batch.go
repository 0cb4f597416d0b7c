package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// nextProgram is what MUSTER_NEXT names: it asks by one pipe, and prints the line
// that comes by another; an empty one means that there is no more.
const nextProgram = `#!/bin/sh
printf 'next\n' > %[1]s || exit 1
IFS= read -r line < %[2]s && [ -n "$line" ] || exit 0
printf '%%s\n' "$line"
`

// Handed is a datum as a program in batch mode is given it: a line of JSON.
type Handed struct {
	Name string `json:"name"`
	// Inputs are the folders of the inputs by their names, Output where to write.
	Inputs map[string]string `json:"inputs"`
	Output string            `json:"output"`
	// Variables are the variables that programs which run once for each datum get about it.
	Variables map[string]string `json:"variables,omitempty"`
}

// splitter writes what the program says into the log of the datum that it has.
type splitter struct {
	mu  sync.Mutex
	log *os.File
}

// Write implements io.Writer.
func (s *splitter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return len(p), nil
	}
	return s.log.Write(p)
}

func (s *splitter) turn(log *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.log
	s.log = log
	if old == nil {
		return nil
	}
	return old.Close()
}

// batch runs the program once, and gives it datums as it asks for them. A program
// that ends with a datum in its hands has failed with that datum, and is started
// again for the next.
func (w *worker) batch(ctx context.Context) error {
	for {
		if len(w.has) == 0 {
			if err := w.fill(ctx, w.want()); err != nil {
				return err
			}
		}
		if err := w.fresh.empty(ctx); err != nil {
			return err
		}
		if err := w.sitting(ctx); err != nil {
			return err
		}
	}
}

// sitting is one run of a program in batch mode.
func (w *worker) sitting(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(w.o.Scratch, "muster-batch-")
	if err != nil {
		return fmt.Errorf("making a folder for the program: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ask, answer, program := filepath.Join(dir, "ask"), filepath.Join(dir, "answer"), filepath.Join(dir, "next")
	if err := errors.Join(syscall.Mkfifo(ask, 0o600), syscall.Mkfifo(answer, 0o600),
		os.WriteFile(program, fmt.Appendf(nil, nextProgram, quote(ask), quote(answer)), 0o700)); err != nil {
		return fmt.Errorf("making the pipes of the program: %w", err)
	}
	// Both ends of both are open here for as long as the program runs: opening one
	// never waits for somebody who is gone, and nobody reads an end that is none.
	asks, err := os.OpenFile(ask, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening the pipes of the program: %w", err)
	}
	defer func() { _ = asks.Close() }()
	answers, err := os.OpenFile(answer, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening the pipes of the program: %w", err)
	}
	defer func() { _ = answers.Close() }()
	say := &splitter{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd, err := w.command(ctx, append(w.o.Environ[:len(w.o.Environ):len(w.o.Environ)], "MUSTER_NEXT="+program))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = say, say
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the program: %w", err)
	}
	w.memory.offer(cmd.Process.Pid)
	h := &host{worker: w, say: say, answers: answers, cancel: cancel}
	var group sync.WaitGroup
	group.Go(func() { h.serve(ctx, asks) })
	ended := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	w.leaveNothing(ctx)
	cancel(nil)
	_ = errors.Join(asks.SetDeadline(time.Now()), answers.SetDeadline(time.Now()))
	group.Wait()
	return h.conclude(ctx, ended)
}

// quote makes a word of the shell of a path.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// host gives a program in batch mode its datums.
type host struct {
	worker  *worker
	say     *splitter
	answers io.Writer
	cancel  context.CancelCauseFunc

	has     *shift.Datum
	started time.Time
	// before is what time files had then.
	before time.Time
	timer  *time.Timer
	over   bool
	err    error
	given  int
}

// serve answers each time the program asks. Asking says that the datum before is
// done.
func (h *host) serve(ctx context.Context, asks io.Reader) {
	buf := make([]byte, len("next\n"))
	for {
		if _, err := io.ReadFull(asks, buf); err != nil {
			return
		}
		h.finish(nil)
		d, err := h.worker.next(ctx)
		line := "\n"
		if err == nil {
			line, err = h.begin(d)
		}
		switch {
		case errors.Is(err, errOver):
			h.over = true
		case err != nil && ctx.Err() != nil && h.has == nil:
			return // it has ended meanwhile, or is to
		case err != nil:
			h.err = err
			h.cancel(err)
			return
		}
		if _, err := io.WriteString(h.answers, line); err != nil {
			return // the program has ended meanwhile: conclude says what that means
		}
	}
}

// begin hands a datum out.
func (h *host) begin(d shift.Datum) (string, error) {
	h.has, h.started, h.before = &d, time.Now(), fileTime()
	h.given++
	log, err := openLog(d.Folder)
	if err == nil {
		err = h.worker.show(d)
	}
	if err == nil {
		err = errors.Join(h.say.turn(log), shift.Advance(d.Folder, shift.GivenFile, shift.BegunFile))
	}
	if err != nil {
		return "", fmt.Errorf("beginning datum %s: %w", d.Name, err)
	}
	handed := Handed{Name: d.Name, Inputs: map[string]string{}, Output: filepath.Join(d.Folder, shift.OutFolder)}
	for _, name := range h.worker.program.Inputs {
		handed.Inputs[name] = filepath.Join(d.Folder, shift.InFolder, name)
	}
	for _, v := range told(h.worker.program, &d) {
		if handed.Variables == nil {
			handed.Variables = map[string]string{}
		}
		name, value, _ := strings.Cut(v, "=")
		handed.Variables[name] = value
	}
	line, err := json.Marshal(handed)
	if err != nil {
		return "", fmt.Errorf("writing datum %s: %w", d.Name, err)
	}
	if limit := h.worker.program.Timeout; limit > 0 {
		h.timer = time.AfterFunc(limit, func() { h.cancel(errTime) })
	}
	return string(line) + "\n", nil
}

// finish notes that the program is done with the datum that it has.
func (h *host) finish(err error) {
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.has == nil {
		return
	}
	d := *h.has
	h.has = nil
	if failed := h.say.turn(nil); failed != nil && err == nil {
		err = fmt.Errorf("closing its log: %w", failed)
	}
	if err == nil {
		err = h.worker.look(d, h.before)
	}
	o := shift.Outcome{ID: d.ID, Started: h.started, Took: time.Since(h.started), Worker: h.worker.o.Name, Exit: exitCode(err)}
	h.worker.finish(d, h.worker.conclude(d, o, h.before, err))
}

// conclude says what the end of the program means.
func (h *host) conclude(ctx context.Context, ended error) error {
	late := errors.Is(context.Cause(ctx), errTime)
	switch {
	case h.err != nil && !late:
		if h.has != nil {
			h.worker.has = append(h.worker.has, *h.has)
		}
		return h.err
	case h.has != nil && late:
		h.finish(fmt.Errorf("it was stopped: it took longer than %s (timeout)", h.worker.program.Timeout))
	case h.has != nil && ended == nil:
		h.finish(errors.New("the program ended with exit code 0 and without asking for another datum, which would have said that this one is done"))
	case h.has != nil:
		h.finish(withEnding(ctx, h.worker.memory.tell(h.say, explain(ended)), h.has.Folder))
	case ended != nil && h.given == 0:
		return fmt.Errorf("the program ended before it asked for a datum: %w", explain(ended))
	case ended == nil && !h.over && h.given == 0:
		return errors.New("the program ended without asking for a datum: in batch mode it runs the program in MUSTER_NEXT for each")
	}
	return nil
}
