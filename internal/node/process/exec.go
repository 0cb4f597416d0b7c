package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// Size is the size of a terminal, in characters.
type Size struct {
	Columns, Rows uint16
}

// ExecOptions says what Exec runs and what it is connected to.
type ExecOptions struct {
	// Argv is the command and its arguments.
	Argv []string
	// Env is added to the container's environment.
	Env []string
	// Dir is the working directory. Empty: the container's.
	Dir string
	// TTY gives the command a terminal; Stderr is then unused.
	TTY bool
	// Stdin, Stdout and Stderr may be nil: empty, or discarded. A Read of Stdin
	// that is under way when the command ends is not waited for.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize brings new terminal sizes. It may be nil.
	Resize <-chan Size
}

// drainFor is how long output may pause after a command has ended before it is
// taken for complete: what the command left running in the background may hold
// its pipes open for ever.
const drainFor = 200 * time.Millisecond

// Exec runs one more command in the container: its namespaces, limits, user
// and environment. It returns the command's exit code (128 + n where signal n
// ended it), or a *StartError. A ctx that ends kills the command.
func (p *Process) Exec(ctx context.Context, o ExecOptions) (code int, err error) {
	l, err := p.dial(ctx)
	if err != nil {
		return 0, fmt.Errorf("executing in container %s: %w", p.spec.ID, err)
	}
	defer l.close() // which kills the command if it still runs
	stop := context.AfterFunc(ctx, l.interrupt)
	defer stop()
	code, err = execute(l, o)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	var start *StartError
	if err != nil && !errors.As(err, &start) {
		err = fmt.Errorf("executing in container %s: %w", p.spec.ID, err)
	}
	return code, err
}

func execute(l *link, o ExecOptions) (int, error) {
	request := contract.Request{Op: contract.OpExec, Argv: o.Argv, Env: o.Env, Dir: o.Dir, TTY: o.TTY}
	var s streams
	defer s.close()
	if o.TTY && o.Resize != nil {
		select {
		case size := <-o.Resize:
			request.Columns, request.Rows = size.Columns, size.Rows
		default:
		}
	}
	var theirs []*os.File
	if !o.TTY {
		var err error
		if theirs, err = s.open(o); err != nil {
			return 0, err
		}
	}
	fds := make([]int, 0, len(theirs))
	for _, f := range theirs {
		fds = append(fds, int(f.Fd()))
	}
	err := l.send(request, fds...)
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		return 0, err
	}
	var reply contract.Reply
	if err := l.receive(&reply); err != nil {
		return 0, lost(err)
	}
	if reply.Exit == nil {
		if o.TTY {
			if len(l.files) != 1 {
				return 0, errors.New("the shim sent no terminal")
			}
			s.terminal(l.files[0], o)
			l.files = nil
		}
		s.copy(o)
		if err := l.receive(&reply); err != nil {
			return 0, lost(err)
		}
	}
	switch {
	case reply.Ended:
		return 0, ErrEnded
	case reply.Exit == nil:
		return 0, errors.New("the shim answered without an exit")
	case reply.Exit.Err != "":
		return reply.Exit.Code, &StartError{Reason: reply.Exit.Reason, Code: reply.Exit.Code, Message: reply.Exit.Err}
	}
	s.drain()
	return reply.Exit.Code, nil
}

// lost names the end of the connection for what it is.
func lost(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		return ErrEnded
	}
	return err
}

// streams are our ends of a command's standard streams, and who copies them.
type streams struct {
	in, out, err *os.File
	size         *os.File      // the terminal, for its size
	done         chan struct{} // closed by close
	outputs      sync.WaitGroup
	others       sync.WaitGroup
}

// open makes the pipes of a command without a terminal.
func (s *streams) open(o ExecOptions) (theirs []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range theirs {
				_ = f.Close()
			}
		}
	}()
	add := func(used, reads bool, ours **os.File) error {
		if !used {
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err == nil {
				theirs = append(theirs, null)
			}
			return err
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		if !reads {
			r, w = w, r
		}
		*ours = w
		theirs = append(theirs, r)
		return nil
	}
	if err = add(o.Stdin != nil, true, &s.in); err == nil {
		if err = add(o.Stdout != nil, false, &s.out); err == nil {
			err = add(o.Stderr != nil, false, &s.err)
		}
	}
	return theirs, err
}

// terminal takes over a terminal's master for all streams.
func (s *streams) terminal(master *os.File, o ExecOptions) {
	s.size = master
	s.out = master
	if o.Stdin != nil {
		s.in = master
	}
}

// copy starts copying the streams.
func (s *streams) copy(o ExecOptions) {
	s.done = make(chan struct{})
	output := func(from *os.File, to io.Writer) {
		if from == nil {
			return
		}
		if to == nil {
			to = io.Discard
		}
		s.outputs.Add(1)
		go func() {
			defer s.outputs.Done()
			copyOutput(to, from)
		}()
	}
	output(s.out, o.Stdout)
	output(s.err, o.Stderr)
	if s.in != nil {
		in := s.in
		// Not waited for: nothing interrupts a Read of the caller's.
		go func() {
			_, _ = io.Copy(struct{ io.Writer }{in}, o.Stdin)
			if in != s.size {
				_ = in.Close()
			} else {
				_, _ = in.Write([]byte{4}) // what a person types for the end
			}
		}()
	}
	if s.size != nil && o.Resize != nil {
		s.others.Add(1)
		go func() {
			defer s.others.Done()
			s.follow(o.Resize)
		}()
	}
}

// follow sets the terminal's size as it changes.
func (s *streams) follow(sizes <-chan Size) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			if raw, err := s.size.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) {
					_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: size.Columns, Row: size.Rows})
				})
			}
		case <-s.done:
			return
		}
	}
}

// copyOutput copies until the end. After drain it ends with the first pause
// too, but never drops what is there to read, however slow the reader is.
func copyOutput(to io.Writer, from *os.File) {
	buf := make([]byte, 32<<10)
	for draining := false; ; {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !draining {
			draining, err = true, nil
		}
		if err != nil {
			return
		}
		if draining {
			_ = from.SetReadDeadline(time.Now().Add(drainFor))
		}
	}
}

// drain waits until all output is copied, or no more comes for a while.
func (s *streams) drain() {
	for _, f := range []*os.File{s.out, s.err} {
		if f != nil {
			_ = f.SetReadDeadline(time.Unix(1, 0))
		}
	}
	s.outputs.Wait()
}

// close lets go of everything and waits for who copies output.
func (s *streams) close() {
	if s.done != nil {
		close(s.done)
	}
	for _, f := range []*os.File{s.in, s.out, s.err} {
		if f != nil {
			_ = f.Close()
		}
	}
	s.outputs.Wait()
	s.others.Wait()
}
