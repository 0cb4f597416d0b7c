package userfiles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// helper is one process that is a user.
type helper struct {
	process *os.Process
	socket  *os.File
	idle    time.Duration

	writing sync.Mutex

	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan answer
	calls   int
	retired bool
	timer   *time.Timer
	failed  error // of the whole helper
	ended   chan struct{}
}

// answer is what a call gets from the helper.
type answer struct {
	reply *reply
	file  *os.File
	err   error
}

// errEnded is the error of calls whose helper has ended. A further call starts another one.
var errEnded = errors.New("the process that asks has ended: its user may have killed it")

// start starts a helper. Its process has no variable and no file of Muster's, but for the socket.
func start(program string, u User, idle time.Duration) (*helper, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("making a socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "helper"), os.NewFile(uintptr(fds[1]), "muster")
	defer func() { _ = theirs.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer func() { _ = null.Close() }()
	process, err := os.StartProcess(program, append([]string{program, Verb}, u.arguments()...), &os.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2"}, Files: []*os.File{null, null, null, theirs},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a helper: %w", err), ours.Close())
	}
	p := &helper{process: process, socket: ours, idle: idle, pending: map[uint64]chan answer{}, ended: make(chan struct{})}
	p.timer = time.AfterFunc(idle, p.retire)
	return p, nil
}

// enter counts a call. It returns false for a helper that is not to be used any more.
func (p *helper) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return false
	}
	p.calls++
	p.timer.Stop()
	return true
}

// leave ends a call. After the last one of a retired helper, the process is killed.
func (p *helper) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.calls > 0 {
		return
	}
	if p.retired {
		p.end()
		return
	}
	p.timer.Reset(p.idle)
}

// retire lets no further call enter. The process is killed once its calls have ended.
func (p *helper) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	if p.calls == 0 {
		p.end()
	}
}

// kill ends the helper whatever it does.
func (p *helper) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	p.end()
}

// end kills the process, which may be stopped: it would not notice the end of the socket.
func (p *helper) end() {
	_ = p.process.Kill()
	_ = p.socket.Close() // ends wait's reading
}

// call makes one call and waits for its answer.
func (p *helper) call(ctx context.Context, r request, with *os.File) (*reply, *os.File, error) {
	mine := make(chan answer, 1)
	p.mu.Lock()
	if p.failed != nil {
		p.mu.Unlock()
		return nil, nil, p.failed
	}
	p.last++
	r.ID = p.last
	p.pending[r.ID] = mine
	p.mu.Unlock()
	if err := p.send(ctx, r, with); err != nil {
		p.drop(r.ID, mine)
		return nil, nil, err
	}
	select {
	case a := <-mine:
		return a.reply, a.file, a.err
	case <-ctx.Done():
		p.drop(r.ID, mine)
		return nil, nil, ctx.Err()
	}
}

// drop forgets a call, and closes the file of an answer that came too late.
func (p *helper) drop(id uint64, mine chan answer) {
	p.mu.Lock()
	delete(p.pending, id)
	p.mu.Unlock()
	select {
	case a := <-mine:
		closeAll(some(a.file))
	default:
	}
}

// send writes a request. A helper that is stopped reads nothing, so the wait for room ends with ctx.
func (p *helper) send(ctx context.Context, r request, with *os.File) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	deadline, _ := ctx.Deadline()
	if err := p.socket.SetWriteDeadline(deadline); err != nil {
		return errEnded
	}
	stop := context.AfterFunc(ctx, func() { _ = p.socket.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	err := send(p.socket, r, longestRequest, with)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET), errors.Is(err, os.ErrClosed):
		return errEnded
	}
	return err
}

// wait hands answers to their calls until the process has ended.
func (p *helper) wait() {
	cause := errEnded
	for {
		r := &reply{}
		file, err := receive(p.socket, r, longestReply)
		if err != nil {
			break
		}
		if r.ID == 0 { // the helper could not become the user
			closeAll(some(file))
			cause = r.err()
			break
		}
		p.mu.Lock()
		mine := p.pending[r.ID]
		delete(p.pending, r.ID)
		if mine != nil {
			mine <- answer{reply: r, file: file}
		}
		p.mu.Unlock()
		if mine == nil {
			closeAll(some(file))
		}
	}
	p.mu.Lock()
	p.failed = cause
	for id, mine := range p.pending {
		delete(p.pending, id)
		mine <- answer{err: cause}
	}
	p.timer.Stop()
	p.retired = true
	p.end()
	p.mu.Unlock()
	_, _ = p.process.Wait() // the shim may have waited for it already
	close(p.ended)
}
