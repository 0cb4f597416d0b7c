package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/room"
)

// child is one process that upstream runs in.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}

	mu    sync.Mutex
	stage contract.Stage
	fault string
}

// spawn starts a child under order. listener is handed over to it; the
// caller's own copy stays open.
func spawn(ctx context.Context, o Options, order contract.Order, listener *net.TCPListener) (*child, error) {
	if space, err := room.Look(o.DataDir); err == nil && !o.Bare {
		order.Frugal = space.Low()
	}
	line, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encoding the order: %w", err)
	}
	// The child has its own copies in the end.
	var inherited []*os.File
	defer func() {
		for _, f := range inherited {
			_ = f.Close()
		}
	}()
	lock, err := lockChild(ctx, o.DataDir)
	if err != nil {
		return nil, err
	}
	inherited = append(inherited, lock)
	log, err := os.OpenFile(order.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the control plane's log: %w", explain(err, o.DataDir))
	}
	inherited = append(inherited, log)
	socket, err := listener.File()
	if err != nil {
		return nil, fmt.Errorf("handing over the API server's socket: %w", err)
	}
	inherited = append(inherited, socket)
	reports, reportsEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("opening a pipe for reports: %w", err)
	}
	inherited = append(inherited, reportsEnd)

	// The child's life is its standard input's, not ctx's: an order to stop
	// must not be a kill.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), o.Executable[0], o.Executable[1:]...)
	cmd.Dir = socketDir(o.DataDir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{socket, reportsEnd, lock}
	// A group of its own: a terminal's ^C and ^Z are for the supervisor.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane's process: %w", err), reports.Close())
	}
	c := &child{cmd: cmd, stdin: stdin, exited: make(chan struct{}), stage: contract.StageEtcd}
	go c.watch(reports)
	// It fails only if the child has ended, and why is told there.
	_, _ = stdin.Write(append(line, '\n'))
	return c, nil
}

// socketDir is the child's working folder, which holds etcd's socket.
func socketDir(dataDir string) string { return filepath.Join(dataDir, "run") }

// watch reads reports until the process has ended, and reaps it.
func (c *child) watch(reports io.ReadCloser) {
	defer close(c.exited)
	decoder := json.NewDecoder(bufio.NewReader(reports))
	for {
		var report contract.Report
		if err := decoder.Decode(&report); err != nil {
			break
		}
		c.mu.Lock()
		if report.Error == "" {
			c.stage = report.Stage
		} else if c.fault == "" { // The first is the cause of the others.
			c.stage, c.fault = report.Stage, report.Error
		}
		c.mu.Unlock()
	}
	_ = reports.Close()
	_ = c.cmd.Wait() // How it ended is in ProcessState.
}

// kill ends the process at once and waits for its end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// stop asks the process to end in order, and kills it when ctx ends first.
func (c *child) stop(ctx context.Context) error {
	// Errors mean that the child has ended, which is what is wanted.
	_, _ = io.WriteString(c.stdin, contract.Stop+"\n")
	_ = c.stdin.Close()
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		c.kill()
		return fmt.Errorf("stopping the control plane in order: %w: it was killed, which loses nothing that was stored", ctx.Err())
	}
}

// cause explains an end that nobody asked for. Call it after the end.
func (c *child) cause(o Options) error {
	c.mu.Lock()
	stage, fault := c.stage, c.fault
	c.mu.Unlock()
	tail := logTail(o.logFile())
	if fault == "" {
		fault = lastCry(tail)
	}
	if fault == "" {
		fault = c.cmd.ProcessState.String()
	}
	fault = firstLine(fault)
	if err := diskTrouble(fault, o.DataDir); err != nil {
		return err
	}
	if stage == contract.StageEtcd {
		return etcdTrouble(o, fault, tail)
	}
	return fmt.Errorf("%s ended: %s (%s)\nIts last words, from %s:\n%s", stage, fault, c.cmd.ProcessState, o.logFile(), indent(lastLines(tail, 12)))
}

// diskTrouble recognises the system's words for a disk that does not take
// writes; nil if it is something else.
func diskTrouble(fault, dir string) error {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES} {
		if strings.Contains(fault, errno.Error()) {
			return fmt.Errorf("etcd could not write: %w", explain(errno, dir))
		}
	}
	return nil
}

const tailSize = 64 << 10

// logTail is the end of the log; empty if there is none.
func logTail(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailSize {
		if _, err := f.Seek(-tailSize, io.SeekEnd); err != nil {
			return nil
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tailSize))
	if err != nil {
		return nil
	}
	return data
}

// lastCry is the last line by which Go or upstream says why it ends the
// process.
func lastCry(tail []byte) string {
	cry := ""
	for line := range strings.Lines(string(tail)) {
		line = strings.TrimSpace(line)
		for _, start := range []string{"panic: ", "fatal error: ", "Error: ", "F1", "F0"} {
			if strings.HasPrefix(line, start) {
				cry = line
			}
		}
	}
	return cry
}

func lastLines(data []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
