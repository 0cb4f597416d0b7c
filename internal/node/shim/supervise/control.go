package supervise

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// accept serves connections until the shim ends.
func (s *supervisor) accept() {
	for {
		c, err := s.listener.accept()
		switch {
		case err == nil:
			// Counted here, so that the end waits for whoever came before it.
			s.waiters.Add(1)
			go func() {
				defer s.waiters.Done()
				defer c.close()
				s.serve(c)
			}()
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
			time.Sleep(10 * time.Millisecond)
		default:
			return
		}
	}
}

// serve carries out one connection's request.
func (s *supervisor) serve(c *conn) {
	var r contract.Request
	if err := c.receive(&r); err != nil {
		return
	}
	var reply contract.Reply
	var err error
	switch r.Op {
	case contract.OpWait:
		s.serveWait(c)
		return
	case contract.OpExec:
		s.serveExec(c, r)
		return
	case contract.OpWatch:
		s.serveWatch(c)
		return
	case contract.OpStop:
		reply.Done = s.stop(r.Grace)
		reply.Ended = !reply.Done
	case contract.OpSignal:
		reply, err = s.signal(r.Signal)
	case contract.OpResize:
		reply, err = s.resize(r)
	case contract.OpInput:
		reply, err = s.serveInput(c)
	default:
		err = errors.New("this shim does not know the operation " + string(r.Op))
	}
	if err != nil {
		reply.Error = err.Error()
	}
	_ = c.send(reply)
}

// serveWait tells a connection of the start and the exit.
func (s *supervisor) serveWait(c *conn) {
	select {
	case <-s.started:
	default:
		if c.send(s.state()) != nil {
			return
		}
	}
	<-s.started
	if state := s.state(); state.Started && c.send(state) != nil {
		return
	}
	<-s.ended
	_ = c.send(contract.Reply{Exit: s.exit})
}

// serveExec runs one more command and tells how it ended.
func (s *supervisor) serveExec(c *conn, r contract.Request) {
	<-s.started
	refuse := func(err *startError) { _ = c.send(contract.Reply{Exit: err.exit(), Ended: err == errEnded}) }
	if s.spawner == nil {
		refuse(errEnded) // it never started
		return
	}
	cmd := command{argv: r.Argv, env: append(s.environment(), r.Env...), dir: r.Dir, tty: r.TTY}
	if cmd.dir == "" {
		cmd.dir = s.spec.Dir
	}
	var files []int // for muster
	switch {
	case r.TTY:
		master, slave, err := openTerminal(s.credential())
		if err != nil {
			refuse(fault(contract.ReasonInternal, "opening a terminal: %v", err))
			return
		}
		defer func() { _ = unix.Close(master) }()
		c.fds = append(c.fds, slave)
		setSize(master, r)
		files = []int{master}
		cmd.files = [3]int{slave, slave, slave}
	case len(c.fds) == 3:
		copy(cmd.files[:], c.fds)
	default:
		refuse(fault(contract.ReasonInternal, "running a command: %d files came along, expected 3", len(c.fds)))
		return
	}
	s.follow(c, cmd, files)
}

// follow starts a command for a connection, and kills it when the connection closes.
func (s *supervisor) follow(c *conn, cmd command, files []int) {
	refuse := func(err *startError) { _ = c.send(contract.Reply{Exit: err.exit(), Ended: err == errEnded}) }
	exited := make(chan syscall.WaitStatus, 1)
	at := time.Now()
	started, startErr := s.spawn(cmd, exited)
	if startErr != nil {
		refuse(startErr)
		return
	}
	// Our copies would keep the readers waiting.
	for _, fd := range c.fds {
		_ = unix.Close(fd)
	}
	c.fds = nil
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.awaitClose()
	}()
	ran := make(chan struct{})
	go func() { // a folder or program of the user's may make the stage wait for a server
		select {
		case <-closed:
			s.killSession(started.pid)
		case <-ran:
		}
	}()
	startErr = s.executed(started, exited)
	close(ran)
	if startErr != nil {
		refuse(startErr)
		return
	}
	if c.send(contract.Reply{Started: true, PID: started.pid, StartedAt: at}, files...) != nil {
		s.killSession(started.pid)
		return
	}
	select {
	case status := <-exited:
		exit := exitOf(status)
		exit.StartedAt, exit.FinishedAt = at, time.Now()
		_ = c.send(contract.Reply{Exit: &exit})
	case <-closed:
		s.killSession(started.pid)
	}
}

// killSession ends a command of serveExec with what it has started in its own
// process group.
func (s *supervisor) killSession(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, alive := s.children[pid]; alive {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
}

// serveWatch tells a connection of new output until either side ends.
func (s *supervisor) serveWatch(c *conn) {
	<-s.started
	if s.journal == nil {
		return
	}
	s.journal.watch(c)
	defer s.journal.unwatch(c)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.awaitClose()
	}()
	select {
	case <-closed:
	case <-s.ended:
	}
}

// serveInput feeds the file that came along to the main process.
func (s *supervisor) serveInput(c *conn) (contract.Reply, error) {
	<-s.started
	s.mu.Lock()
	stdin := s.stdin
	s.mu.Unlock()
	if stdin == nil {
		return contract.Reply{}, errors.New("the container has no standard input: it was started without, or it was attached to before and closed")
	}
	if len(c.fds) != 1 {
		return contract.Reply{}, errors.New("attaching: no file came along")
	}
	_ = unix.SetNonblock(c.fds[0], true)
	from := os.NewFile(uintptr(c.fds[0]), "input")
	c.fds = nil
	stop := make(chan struct{})
	go func() {
		defer func() { _ = from.Close() }()
		select {
		case <-s.ended:
		case <-stop:
		}
	}()
	defer close(stop)
	_, err := io.Copy(struct{ io.Writer }{stdin}, struct{ io.Reader }{from})
	if errors.Is(err, unix.EPIPE) || errors.Is(err, os.ErrClosed) {
		return contract.Reply{Ended: true}, nil
	}
	if err == nil && s.spec.StdinOnce {
		s.closeStdin()
	}
	return contract.Reply{Done: err == nil}, err
}

func (s *supervisor) closeStdin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stdin != nil && s.stdin != s.terminal {
		_ = s.stdin.Close()
		s.stdin = nil
	}
}
