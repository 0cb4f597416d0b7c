package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// machine is a running one, seen from the host.
type machine struct {
	name string
	// first is its first process; that ends when orders is closed.
	first  *exec.Cmd
	orders io.WriteCloser

	// mu is held while an order is written, and guards what follows.
	mu      sync.Mutex
	last    int
	waiting map[int]chan wire.Event
	runs    map[string]*running
	// gone is closed once the machine has ended and nothing of it is left.
	gone chan struct{}
}

// running is a program that was started and may have ended since.
type running struct {
	ended chan struct{}
	// how it ended; read it after ended is closed.
	how string
}

// boot starts a machine with the program bin/machine and waits until it stands.
func boot(bin, log string, setup wire.Setup) (*machine, error) {
	argument, err := json.Marshal(setup)
	if err != nil {
		return nil, fmt.Errorf("writing the setup of %s: %w", setup.Hostname, err)
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", setup.Hostname, err)
	}
	defer func() { _ = output.Close() }()
	// Not a command with a context: a machine ends by its orders, or killed.
	first := &exec.Cmd{Path: bin + "/machine", Args: []string{"machine", string(argument)}, Env: []string{"PATH=" + searchPath(bin)}, Stderr: output}
	first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	orders, err := first.StdinPipe()
	if err != nil {
		return nil, err
	}
	events, err := first.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m := &machine{name: setup.Hostname, first: first, orders: orders, waiting: map[int]chan wire.Event{}, runs: map[string]*running{}, gone: make(chan struct{})}
	stands := make(chan wire.Event, 1)
	m.waiting[0] = stands
	if err := first.Start(); err != nil {
		return nil, fmt.Errorf("starting the machine %s (namespaces want root): %w", m.name, err)
	}
	go m.listen(events)
	if event := <-stands; event.Error != "" {
		return nil, fmt.Errorf("starting the machine %s: %s\n%s", m.name, event.Error, tail(log))
	}
	return m, nil
}

// listen hands events to whom they concern until the machine has ended, and
// then tells everybody that it has.
func (m *machine) listen(events io.Reader) {
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		var event wire.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		m.mu.Lock()
		m.hand(event)
		m.mu.Unlock()
	}
	// The first process is reaped only after all others of its namespace. How
	// it ended does not matter.
	_ = m.first.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.waiting {
		m.hand(wire.Event{Answer: id, Error: "the machine has ended"})
	}
	for name := range m.runs {
		m.hand(wire.Event{Ended: name, How: "its machine ended"})
	}
	close(m.gone)
}

// hand passes one event on; mu is held.
func (m *machine) hand(event wire.Event) {
	if event.Ended == "" {
		if answer, waits := m.waiting[event.Answer]; waits {
			delete(m.waiting, event.Answer)
			answer <- event
		}
		return
	}
	if program, known := m.runs[event.Ended]; known {
		delete(m.runs, event.Ended)
		program.how = event.How
		close(program.ended)
	}
}

// order has one thing done. It waits for the answer, which comes at once: no
// order waits for anything.
func (m *machine) order(order wire.Order) error {
	answer := make(chan wire.Event, 1)
	if err := m.send(order, answer); err != nil {
		return err
	}
	if event := <-answer; event.Error != "" {
		return fmt.Errorf("on %s: %s", m.name, event.Error)
	}
	return nil
}

func (m *machine) send(order wire.Order, answer chan wire.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.gone:
		return fmt.Errorf("the machine %s has ended", m.name)
	default:
	}
	m.last++
	order.ID = m.last
	line, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("writing an order: %w", err)
	}
	m.waiting[order.ID] = answer
	if order.Run != nil && m.runs[order.Run.Name] == nil {
		m.runs[order.Run.Name] = &running{ended: make(chan struct{})}
	}
	if _, err := m.orders.Write(append(line, '\n')); err != nil {
		delete(m.waiting, order.ID)
		return fmt.Errorf("the machine %s does not listen: %w", m.name, err)
	}
	return nil
}

// start starts a program.
func (m *machine) start(run wire.Run) error {
	if m.program(run.Name) != nil {
		return fmt.Errorf("%s runs already on %s", run.Name, m.name)
	}
	err := m.order(wire.Order{Run: &run})
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.runs, run.Name)
	}
	return err
}

// program is one that runs, nil for one that does not.
func (m *machine) program(name string) *running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[name]
}

// end sends a program a signal and waits until it has ended. One that does not
// run has ended.
func (m *machine) end(ctx context.Context, name string, signal syscall.Signal) error {
	program := m.program(name)
	if program == nil {
		return nil
	}
	if err := m.signal(name, signal); err != nil && m.program(name) == program {
		return err
	}
	select {
	case <-program.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of %s on %s: %w", name, m.name, ctx.Err())
	}
}

func (m *machine) signal(name string, signal syscall.Signal) error {
	return m.order(wire.Order{Kill: &wire.Kill{Name: name, Signal: int(signal)}})
}

// off ends the machine and everything on it, as if its plug were pulled.
func (m *machine) off() error {
	if err := m.first.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the machine %s: %w", m.name, err)
	}
	<-m.gone
	_ = m.orders.Close()
	return nil
}

// pid is the machine's first process, as the host counts.
func (m *machine) pid() int { return m.first.Process.Pid }
