package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/osfile"
)

// ErrEnded says that the container has ended.
var ErrEnded = errors.New("the container has ended")

// Process is one container that runs or has run. Its methods may be called
// from several goroutines.
type Process struct {
	runtime  *Runtime
	spec     Spec
	dir      string
	identity contract.Identity
	done     chan struct{}

	mu        sync.Mutex
	live      bool // followed by watch
	pid       int
	startedAt time.Time
	exit      Exit
}

func newProcess(r *Runtime, s Spec, dir string) *Process {
	return &Process{runtime: r, spec: s, dir: dir, done: make(chan struct{})}
}

// Spec is what the container was started with.
func (p *Process) Spec() Spec { return p.spec }

// Dir is the container's folder.
func (p *Process) Dir() string { return p.dir }

// LogDir is the folder of the container's logs, for OpenLogs and archives.
func (p *Process) LogDir() string { return filepath.Join(p.dir, contract.LogFolder) }

// PID is the main process's number on the host. 0: never started, or ended
// before it could be known.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// StartedAt is when the command was executed. Zero: never.
func (p *Process) StartedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startedAt
}

// Done is closed once no process of the tree is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the container ended. It is zero before Done.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Stop asks every process of the tree to end (SIGTERM), ends the rest of it (SIGKILL) after grace,
// and returns once it is gone or ctx ends. The shim keeps the deadline, so that it holds whatever
// becomes of muster. A second Stop can only bring the deadline forward.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	err := p.ask(ctx, contract.Request{Op: contract.OpStop, Grace: grace})
	if err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("stopping container %s: %w", p.spec.ID, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill ends the whole tree at once and returns once it is gone or ctx ends.
func (p *Process) Kill(ctx context.Context) error { return p.Stop(ctx, 0) }

// Signal sends a signal to the main process. ErrEnded: it has ended.
func (p *Process) Signal(ctx context.Context, sig syscall.Signal) error {
	err := p.ask(ctx, contract.Request{Op: contract.OpSignal, Signal: int(sig)})
	if err != nil {
		return fmt.Errorf("signalling container %s: %w", p.spec.ID, err)
	}
	return nil
}

// Resize sets the size of the container's terminal (Spec.TTY).
func (p *Process) Resize(ctx context.Context, size Size) error {
	err := p.ask(ctx, contract.Request{Op: contract.OpResize, Columns: size.Columns, Rows: size.Rows})
	if err != nil {
		return fmt.Errorf("resizing the terminal of container %s: %w", p.spec.ID, err)
	}
	return nil
}

// Remove deletes the container's folder, logs included. It refuses while the
// container runs.
func (p *Process) Remove() error {
	select {
	case <-p.done:
	default:
		if p.watched() {
			return fmt.Errorf("removing container %s: it runs", p.spec.ID)
		}
	}
	if err := removeGroups(p.identity.Groups); err != nil {
		return fmt.Errorf("removing container %s: %w", p.spec.ID, err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("removing container %s: %w", p.spec.ID, err)
	}
	// The folders above go with their last container; others may use them.
	_ = os.Remove(filepath.Dir(p.dir))
	return nil
}

// watched says whether the container's shim was, or is, followed.
func (p *Process) watched() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}

// heard takes in what the shim tells.
func (p *Process) heard(reply contract.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reply.Started {
		p.startedAt = reply.StartedAt
		p.pid = hostPID(p.identity.PID, reply.PID, p.spec.Isolation != nil)
	}
	if reply.Exit != nil {
		p.finishLocked(*reply.Exit)
	}
}

// finish records the exit and closes Done.
func (p *Process) finish(exit Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishLocked(exit)
}

func (p *Process) finishLocked(exit Exit) {
	select {
	case <-p.done:
		return
	default:
	}
	p.exit = exit
	if !exit.StartedAt.IsZero() {
		p.startedAt = exit.StartedAt
	}
	close(p.done)
}

// watch follows a container's shim until its end, in a goroutine that Close
// waits for. shim may be nil: it is another's child.
func (r *Runtime) watch(p *Process, link *link, shim *os.Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	p.mu.Lock()
	p.live = true
	p.mu.Unlock()
	r.closers[p] = link.interrupt
	r.tasks.Add(1)
	go func() {
		defer r.tasks.Done()
		p.follow(link)
		r.mu.Lock()
		closed := r.closed
		delete(r.closers, p)
		r.mu.Unlock()
		link.close()
		switch {
		case shim != nil && closed:
			_ = shim.Release()
		case shim != nil:
			_, _ = shim.Wait() // it has closed its end, so it is about to end
		}
		if !closed {
			_ = removeGroups(p.identity.Groups) // else Remove tells
		}
	}()
	return nil
}

// follow takes in what the shim tells until it closes the connection, and
// settles what it did not tell.
func (p *Process) follow(link *link) {
	for {
		var reply contract.Reply
		if err := link.receive(&reply); err != nil {
			break
		}
		p.heard(reply)
	}
	p.runtime.mu.Lock()
	closed := p.runtime.closed
	p.runtime.mu.Unlock()
	select {
	case <-p.done:
		return
	default:
	}
	if closed {
		return
	}
	p.settle()
}

// settle finishes a container whose shim is gone: with the exit that it
// recorded, or else as lost.
func (p *Process) settle() {
	exit, err := readExit(p.dir)
	if err != nil {
		exit = p.lose()
	}
	p.finish(exit)
}

func readExit(dir string) (Exit, error) {
	var exit Exit
	err := readJSON(filepath.Join(dir, contract.ExitFile), &exit)
	return exit, err
}

// writeJSON writes a file whole or not at all, readable by its owner alone. It does not
// sync: no process that a file describes outlives a loss of power.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return osfile.ReplaceUnsynced(path, data, 0o600)
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
