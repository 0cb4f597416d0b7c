package spark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// killAfter is how long after SIGTERM what was started is killed.
const killAfter = 5 * time.Second

// ErrStopped is why a member ends that was told to.
var ErrStopped = errors.New("stopped")

// program is something that was started, with all that it starts: a process group.
type program struct {
	pid   int
	stop  context.CancelFunc
	ended chan struct{} // closed once nothing of it is left
	err   error         // how it ended; once ended is closed
}

// start starts a program. It is the caller's to end it, by halt.
func start(ctx context.Context, environ []string, out io.Writer, words ...string) (*program, error) {
	path, err := exec.LookPath(words[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, fmt.Errorf("starting %s: %w", words[0], err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.Args[0], cmd.Env, cmd.Stdout, cmd.Stderr = words[0], environ, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	if err := cmd.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("starting %s: %w", words[0], err)
	}
	p := &program{pid: cmd.Process.Pid, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if p.err = cmd.Wait(); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // it ended well, and something that it started did not
		}
		stop()
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // what it left behind
	}()
	return p, nil
}

// halt ends a program and waits until it is gone.
func (p *program) halt() {
	p.stop()
	<-p.ended
}

// kill ends a program without asking, and waits until it is gone.
func (p *program) kill() {
	if p.running() {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	p.halt()
}

// running says that it has not ended.
func (p *program) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// exitCode is what shells say: 128 and the signal's number where one ended it.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return -1
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return ended.ExitCode()
}

// inWords says how a program ended that should not have.
func inWords(err error) string {
	switch code := exitCode(err); {
	case code > 128:
		return fmt.Sprintf("was ended by signal %d (%s)", code-128, syscall.Signal(code-128))
	case code >= 0:
		return fmt.Sprintf("ended with exit code %d", code)
	}
	return "could not be run: " + err.Error()
}

// class is how one of Spark's own programs is started.
func (i *Installation) class(name string) []string {
	return []string{filepath.Join(i.Home, "bin", "spark-class"), "org.apache.spark.deploy." + name}
}
