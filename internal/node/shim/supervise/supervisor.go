package supervise

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// supervisor is the state of one container.
type supervisor struct {
	root  *os.Root
	spec  contract.Spec
	order contract.Order

	listener *conn
	groups   []groupFolder
	locks    []*os.File
	shared   []*os.File
	journal  *journal
	spawner  chan spawnRequest
	// messageFile or messageRoot is what the termination message is read from.
	messageFile *os.File
	messageRoot *os.Root
	pumps       sync.WaitGroup
	waiters     sync.WaitGroup

	// mu guards what follows. It is held while a process is started, so that
	// none can be reaped before it is known.
	mu        sync.Mutex
	main      int // 0: not started
	startedAt time.Time
	stdin     *os.File // the main process's standard input, or its terminal
	terminal  *os.File
	exited    chan syscall.WaitStatus // how main ended; set before it starts
	stopBy    time.Time               // zero: not asked to stop
	stopTimer *time.Timer
	children  map[int]chan<- syscall.WaitStatus
	childless bool
	leaving   bool // the main process has ended; nothing may be started
	ending    bool // the rest of the tree is being killed
	cutShort  bool // processes were killed since the time to end was over
	exit      *contract.Exit

	started chan struct{} // closed once main is set, or exit without it
	reaped  chan struct{} // receives after children were reaped
	ended   chan struct{} // closed once exit is set and written
}

func newSupervisor(root *os.Root, spec contract.Spec, order contract.Order) *supervisor {
	return &supervisor{
		root: root, spec: spec, order: order,
		children: map[int]chan<- syscall.WaitStatus{},
		started:  make(chan struct{}),
		reaped:   make(chan struct{}, 1),
		ended:    make(chan struct{}),
	}
}

// stop asks the tree to end and keeps the deadline. A later call can only bring
// the deadline forward. It answers false when the container has ended already.
func (s *supervisor) stop(grace time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	by := time.Now().Add(grace)
	first := s.stopBy.IsZero()
	if !first && !by.Before(s.stopBy) {
		return true
	}
	s.stopBy = by
	if s.main != 0 {
		s.pursue(first)
	}
	return true
}

// pursue acts on stopBy. It is called with mu held, once there is a main
// process.
func (s *supervisor) pursue(first bool) {
	if first && time.Until(s.stopBy) > 0 {
		t := newTermination()
		t.signalAll()
		go t.watch(s.ended)
	}
	if s.stopTimer != nil {
		s.stopTimer.Stop()
	}
	s.stopTimer = time.AfterFunc(time.Until(s.stopBy), s.timeUp)
}

// signal sends a signal to the main process.
func (s *supervisor) signal(sig int) (contract.Reply, error) {
	<-s.started
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, alive := s.children[s.main]; !alive {
		return contract.Reply{Ended: true}, nil
	}
	if err := unix.Kill(s.main, syscall.Signal(sig)); err != nil {
		return contract.Reply{}, fmt.Errorf("sending signal %d: %w", sig, err)
	}
	return contract.Reply{Done: true}, nil
}

// state is what a waiter is told.
func (s *supervisor) state() contract.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return contract.Reply{Started: s.main != 0, PID: s.main, StartedAt: s.startedAt}
}
