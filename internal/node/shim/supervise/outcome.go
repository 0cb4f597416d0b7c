package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

const (
	// drainFor bounds the wait for output after the tree has ended: only a
	// pipe that was handed out of the tree stays open longer.
	drainFor = 2 * time.Second
	// tellFor bounds the wait for those who are told of the end.
	tellFor = time.Second
)

// environment is what every process of the container gets.
func (s *supervisor) environment() []string {
	env := make([]string, 0, len(s.spec.Env)+1)
	for _, e := range s.spec.Env {
		if !strings.HasPrefix(e, contract.IDVariable+"=") {
			env = append(env, e)
		}
	}
	return append(env, contract.IDVariable+"="+s.spec.ID)
}

// startMain starts the main process and connects it to the journal.
func (s *supervisor) startMain() *startError {
	files, ours, err := s.openStreams()
	if err != nil {
		return fault(contract.ReasonInternal, "opening the standard streams: %v", err)
	}
	s.exited = make(chan syscall.WaitStatus, 1)
	at := time.Now()
	started, startErr := s.spawn(command{
		argv: s.spec.Argv, env: s.environment(), dir: s.spec.Dir, files: files, tty: s.spec.TTY,
	}, s.exited)
	for i, fd := range files {
		if i == 0 || fd != files[0] {
			_ = unix.Close(fd)
		}
	}
	if startErr == nil {
		startErr = s.executed(started, s.exited)
	}
	if startErr != nil {
		return startErr
	}
	hold := holdFor
	if s.spec.TTY {
		hold = 0
	}
	for i, from := range ours.output {
		stream := contract.Stdout
		if i == 1 {
			stream = contract.Stderr
		}
		s.pumps.Add(1)
		go func() {
			defer s.pumps.Done()
			s.journal.pump(from, stream, hold)
		}()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.main, s.startedAt = started.pid, at
	s.stdin, s.terminal = ours.stdin, ours.terminal
	if !s.stopBy.IsZero() {
		s.pursue(true)
	}
	close(s.started)
	return nil
}

// streams are our ends of the main process's standard streams.
type streams struct {
	stdin, terminal *os.File
	output          []*os.File
}

// openStreams opens the main process's standard streams, and our ends of them.
func (s *supervisor) openStreams() (theirs [3]int, ours streams, err error) {
	if s.spec.TTY {
		master, slave, err := openTerminal(s.credential())
		if err != nil {
			return theirs, ours, err
		}
		ours.terminal = os.NewFile(uintptr(master), "terminal")
		ours.output = []*os.File{ours.terminal}
		if s.spec.Stdin {
			ours.stdin = ours.terminal
		}
		return [3]int{slave, slave, slave}, ours, nil
	}
	if s.spec.Stdin {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return theirs, ours, err
		}
		_ = unix.SetNonblock(p[1], true)
		theirs[0], ours.stdin = p[0], os.NewFile(uintptr(p[1]), "stdin")
	} else if theirs[0], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return theirs, ours, err
	}
	for i := 1; i <= 2; i++ {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return theirs, ours, err
		}
		_ = unix.SetNonblock(p[0], true)
		theirs[i] = p[1]
		ours.output = append(ours.output, os.NewFile(uintptr(p[0]), "output"))
	}
	return theirs, ours, nil
}

// exitOf turns a wait status into an exit.
func exitOf(status syscall.WaitStatus) contract.Exit {
	if status.Signaled() {
		return contract.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return contract.Exit{Code: status.ExitStatus()}
}

// conclude waits for the main process, ends what it left behind, and sets the
// exit. The exit code is the main process's, as in any container: that of a
// shell which died of SIGTERM is 143, also if the trainer that it had started
// saves its work and then ends well.
func (s *supervisor) conclude() {
	exit := exitOf(<-s.exited)
	s.linger()
	exit.StartedAt, exit.FinishedAt = s.startedAt, time.Now()
	// Only when nothing of the tree is left, the exit may be known.
	s.endTree()
	s.drain()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err == nil {
		exit.CPUSeconds = seconds(usage.Utime) + seconds(usage.Stime)
		exit.MaxRSSBytes = usage.Maxrss << 10
	}
	s.mu.Lock()
	exit.CutShort = s.cutShort
	s.mu.Unlock()
	exit.OOMKilled = exit.Code != 0 && s.outOfMemory()
	exit.Message = s.message()
	s.setExit(exit)
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// drain waits until all output of the tree is logged.
func (s *supervisor) drain() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.pumps.Wait()
	}()
	select {
	case <-done:
	case <-time.After(drainFor):
	}
}

// fail sets the exit of a command that could not start.
func (s *supervisor) fail(err *startError) {
	exit := *err.exit()
	exit.FinishedAt = time.Now()
	s.setExit(exit)
	close(s.started)
}

func (s *supervisor) setExit(exit contract.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exit, s.ending = &exit, true
	if s.stopTimer != nil {
		s.stopTimer.Stop()
	}
}

// finish gives the locks back, records the exit and tells everybody. The order
// matters: whoever learns of the exit may take the locks.
func (s *supervisor) finish() error {
	for _, l := range s.locks {
		release(l)
	}
	for _, l := range s.shared {
		_ = l.Close() // others may hold it still
	}
	file, err := s.record()
	if err != nil {
		err = fmt.Errorf("recording the exit: %w", err)
	}
	close(s.ended)
	if file != nil {
		// After the telling: nobody waits for the disk, and a machine that
		// stops right now tells after its start that the shim was lost.
		_ = s.persist(file)
	}
	// Nobody new is served: the record speaks from now on.
	s.listener.close()
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.waiters.Wait()
	}()
	select {
	case <-told:
	case <-time.After(tellFor):
	}
	return err
}

// record writes the exit under its name, whole or not at all.
func (s *supervisor) record() (*os.File, error) {
	data, err := json.Marshal(s.exit)
	if err != nil {
		return nil, err
	}
	temporary := contract.ExitFile + ".new"
	file, err := s.root.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = file.Write(data); err == nil {
		err = s.root.Rename(temporary, contract.ExitFile)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// persist makes the record survive a loss of power.
func (s *supervisor) persist(record *os.File) error {
	err := errors.Join(record.Sync(), record.Close())
	folder, failed := s.root.Open(".")
	if failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err, folder.Sync(), folder.Close())
}
