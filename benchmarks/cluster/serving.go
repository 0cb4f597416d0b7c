package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// serving is a `muster serve` that runs beside a plane.
type serving struct {
	cmd  *exec.Cmd
	done chan error
	log  string
}

// serve starts Muster and waits until it has placed a gang of one member.
func (b *bench) serve(ctx context.Context, p *plane) (*serving, error) {
	s, err := b.start(ctx, p, noHealth)
	if err != nil {
		return nil, err
	}
	if err := p.probe(ctx); err != nil {
		return nil, errors.Join(err, s.kill(), fmt.Errorf("muster serve said: %s", tail(s.log)))
	}
	b.say("Muster has begun to place")
	return s, nil
}

// noHealth is for a Muster of which nobody asks whether it is ready.
const noHealth = "0"

// start starts Muster and waits for nothing. Health is where it says whether it is
// ready.
func (b *bench) start(ctx context.Context, p *plane, health string) (*serving, error) {
	s := &serving{log: filepath.Join(p.dir, fmt.Sprintf("serve-%d.log", time.Now().UnixNano())), done: make(chan error, 1)}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.CommandContext(ctx, b.muster, "serve", "--kubeconfig", p.kubeconfig, "--health", health, "--metrics", "0")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting muster serve: %w", err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	return s, nil
}

// standBy starts Muster beside one that leads and waits until its cache is filled.
func (b *bench) standBy(ctx context.Context, p *plane) (*serving, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a free port: %w", err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s, err := b.start(ctx, p, address)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return ready(ctx, address), nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for a replica that stands by: %w", err), s.kill(), errors.New(tail(s.log)))
	}
	return s, nil
}

// ready asks a Muster whether its cache is filled.
func ready(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return answer.StatusCode == http.StatusOK && answer.Body.Close() == nil
}

// probe waits until a gang of one member is placed, and removes it.
func (p *plane) probe(ctx context.Context) error {
	const name = "probe"
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := p.count()
	if err != nil {
		return err
	}
	if err := p.gangs.Create(ctx, gang(name, 1, 1)); err != nil {
		return fmt.Errorf("making a gang to see whether Muster is ready: %w", err)
	}
	if _, err := c.until(ctx, 1, of(name+"-", created)); err != nil {
		return err
	}
	return p.removeGangs(ctx, name)
}

// stop asks it to end and waits.
func (s *serving) stop(ctx context.Context) error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping muster serve: %w", err)
	}
	select {
	case err := <-s.done:
		if err != nil {
			return fmt.Errorf("muster serve ended: %w: %s", err, tail(s.log))
		}
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.kill())
	}
}

// kill ends it at once.
func (s *serving) kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing muster serve: %w", err)
	}
	if err := <-s.done; err == nil {
		return errors.New("muster serve ended by itself before it was killed")
	}
	return nil
}

// tail is the end of a log.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}
