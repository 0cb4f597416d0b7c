package supervise

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// reapOn waits for children whenever one has ended.
func (s *supervisor) reapOn(children <-chan os.Signal) {
	for range children {
		s.reap()
	}
}

// reap waits for all children that have ended, those that the tree left to us
// included, and tells who asked to know.
func (s *supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		s.childless = err == syscall.ECHILD
		if err != nil || pid == 0 {
			break
		}
		if tell := s.children[pid]; tell != nil {
			tell <- status
			delete(s.children, pid)
		}
	}
	select {
	case s.reaped <- struct{}{}:
	default:
	}
}

// killAll sends SIGKILL to every process of the tree once.
func (s *supervisor) killAll() {
	if s.spec.Isolation != nil {
		_ = unix.Kill(-1, unix.SIGKILL) // all but us, who are process 1
		return
	}
	for _, g := range s.groups {
		if g.Unified {
			_ = g.write("cgroup.kill", "1")
		}
	}
	for _, pid := range lineage.Descendants(os.Getpid()) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// endTree kills what is left of the tree, and what it still starts, until
// nothing is left.
func (s *supervisor) endTree() {
	const first, last = time.Millisecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, last) {
		s.reap()
		s.mu.Lock()
		childless := s.childless
		s.mu.Unlock()
		if childless {
			return
		}
		s.killAll()
		again := time.After(pause)
		for waiting := true; waiting; {
			select {
			case <-s.reaped:
				s.mu.Lock()
				waiting = !s.childless
				s.mu.Unlock()
			case <-again:
				waiting = false
			}
		}
	}
}
