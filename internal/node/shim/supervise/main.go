package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/enclosure"
	"github.com/muster-dev/muster/internal/node/shim/execution"
)

// defaultGrace is the time to end that the tree gets when the shim is
// itself asked to end, by the machine's shutdown for example.
const defaultGrace = 30 * time.Second

// Main runs the shim. Its arguments are those of the process; it returns the
// process's exit code, which says nothing of the container's.
func Main(args []string) int {
	// The shim's heap is small; collecting often keeps it resident in less.
	debug.SetGCPercent(25)
	if len(args) == 2 && args[1] == execution.Verb {
		return execution.Main()
	}
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: muster-shim FOLDER (muster runs it; there is nothing to run by hand)")
		return 2
	}
	if err := run(args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "muster-shim:", err)
		return 1
	}
	return 0
}

func run(folder string) error {
	signals := make(chan os.Signal, 8)
	// Caught, not ignored: what is ignored here would be ignored by the tree.
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)

	// 1. The folder is opened before the tree of files may change.
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	var spec contract.Spec
	if err := readJSON(root, contract.SpecFile, &spec); err != nil {
		return err
	}
	// 2. Without an order there is no muster that knows of this shim.
	first := newConn(contract.OrderFD)
	var order contract.Order
	switch err := first.receive(&order); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("reading the order: %w", err)
	}
	// 3. From here on a stop may come at any time, and is kept.
	s := newSupervisor(root, spec, order)
	s.listener = newConn(contract.ListenFD)
	go s.reapOn(children)
	go s.heed(signals)
	s.waiters.Add(1)
	go func() {
		defer s.waiters.Done()
		s.serveWait(first)
	}()
	if spec.Tethered {
		go func() {
			first.awaitClose()
			s.stop(0)
		}()
	}
	go s.accept()
	// 4. The command runs, or cannot.
	if start := s.start(folder); start != nil {
		s.fail(start)
	} else {
		s.conclude()
	}
	// 5. Everybody who waits is told before the connections close.
	return s.finish()
}

// heed turns a request to end the shim into a stop of the container.
func (s *supervisor) heed(signals <-chan os.Signal) {
	for sig := range signals {
		if sig == unix.SIGTERM {
			s.stop(defaultGrace)
		}
	}
}

// start brings the command to life. It returns nil once it has been executed.
func (s *supervisor) start(folder string) *startError {
	if err := s.lock(); err != nil {
		return err
	}
	if err := s.openGroups(); err != nil {
		return err
	}
	if err := s.openMessage(); err != nil {
		return err
	}
	netns := -1
	if iso := s.spec.Isolation; iso != nil {
		if iso.NetNS != "" {
			fd, err := unix.Open(iso.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fault(contract.ReasonIsolation, "opening the network namespace %s: %v", iso.NetNS, err)
			}
			netns = fd
		}
		helpers := s.helpers()
		err := enclosure.Enter(enclosure.Options{
			State: folder, Isolation: *iso, MessagePath: s.spec.TerminationMessagePath, User: helpers.As(s.user()), Owner: s.ownerIn,
		})
		helpers.Close()
		if err != nil {
			return fault(contract.ReasonIsolation, "isolating the container: %v", err)
		}
		if err := s.settle(); err != nil {
			return err
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fault(contract.ReasonInternal, "becoming the reaper of the tree: %v", err)
	}
	journal, err := openJournal(s.root, s.spec.Log)
	if err != nil {
		return fault(contract.ReasonInternal, "opening the logs: %v", err)
	}
	s.journal = journal
	if err := s.startSpawner(netns); err != nil {
		return err
	}
	return s.startMain()
}

func readJSON(root *os.Root, name string, v any) error {
	data, err := root.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
