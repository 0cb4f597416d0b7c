package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// programs are those that were asked for, and run. As the first process of its
// namespace this one also inherits every orphan, which it buries unnamed.
type programs struct {
	mu     sync.Mutex
	byPID  map[int]string
	byName map[string]int
	events *json.Encoder
	child  chan os.Signal
}

func newPrograms(events io.Writer) *programs {
	p := &programs{byPID: map[int]string{}, byName: map[string]int{}, events: json.NewEncoder(events), child: make(chan os.Signal, 1)}
	signal.Notify(p.child, unix.SIGCHLD)
	return p
}

// tell writes an event. If nobody reads any more, the owner is gone, and so is
// the machine.
func (p *programs) tell(event wire.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(event)
}

func (p *programs) write(event wire.Event) {
	if p.events.Encode(event) != nil {
		os.Exit(1)
	}
}

func (p *programs) start(run wire.Run) error {
	log, err := os.OpenFile(run.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", run.Name, err)
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	// Held until the program has its name, so that it is not buried unnamed.
	p.mu.Lock()
	defer p.mu.Unlock()
	if pid, runs := p.byName[run.Name]; runs {
		return fmt.Errorf("%s runs already, as process %d", run.Name, pid)
	}
	pid, err := syscall.ForkExec(run.Line[0], run.Line, &syscall.ProcAttr{
		Env:   run.Env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", run.Line[0], err)
	}
	p.byPID[pid], p.byName[run.Name] = run.Name, pid
	return nil
}

func (p *programs) signal(kill wire.Kill) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, runs := p.byName[kill.Name]
	if !runs {
		return fmt.Errorf("%s does not run", kill.Name)
	}
	// Its number cannot have been given to another: it is buried under the lock.
	if err := unix.Kill(pid, unix.Signal(kill.Signal)); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling %s: %w", kill.Name, err)
	}
	return nil
}

// bury waits for children for ever; the process's end ends it.
func (p *programs) bury() {
	for range p.child {
		for p.buryOne() {
		}
	}
}

func (p *programs) buryOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if name, ours := p.byPID[pid]; ours {
		delete(p.byPID, pid)
		delete(p.byName, name)
		p.write(wire.Event{Ended: name, How: how(status)})
	}
	return true
}

func how(status unix.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
