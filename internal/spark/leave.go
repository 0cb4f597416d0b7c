package spark

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// overAlready is for how long an executor waits to be told that the application is done
// where its worker was told so first.
const overAlready = 5 * time.Second

// leaves says that it is to go before the application is done.
func (e *Executor) leaves() bool {
	return e.Leaves && there(filepath.Join(e.Datum, shift.LeaveFile))
}

// giveBack has the executor of a worker end in order: it takes no more tasks, ends those
// that it has, and brings to other executors what their tasks will read. What it is sent
// is for Spark's CoarseGrainedExecutorBackend ("decommission"), and what is then said for
// ExecutorRunner, of version 4; one that the driver has yet to meet ends at once, and had
// no task. The error is [ErrStopped] where it did not end so. It takes as long as its
// tasks take: whoever wants it sooner ends it.
//
// The worker is not told: it would tell the driver, too, and an executor of which the
// driver knows already breaks when it is told itself. So it may start another one, which
// ends with it before anybody knows that one.
func giveBack(w *program, said *reports) error {
	running, over := said.running(), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { dismiss(w.pid, over) })
	last, inOrder := said.await(running, w.ended)
	close(over)
	group.Wait()
	if last == stateKilled {
		// As where the application is done, of which this member hears soon, if not.
		select {
		case <-w.ended:
		case <-time.After(overAlready):
		}
	}
	w.kill()
	if !inOrder {
		return ErrStopped
	}
	return nil
}

// dismiss sends SIGPWR to what a worker has started, once each, until all is over: an
// executor of which it has spoken may be about to start.
func dismiss(worker int, over <-chan struct{}) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for told := map[int]bool{}; ; {
		for _, pid := range children(worker) {
			if !told[pid] {
				told[pid] = true
				_ = syscall.Kill(pid, syscall.SIGPWR) // or it has just ended
			}
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// What a worker says of its executors.
var (
	workerInfo = regexp.MustCompile(`^\d\d:\d\d:\d\d INFO Worker: (.*)$`)
	began      = regexp.MustCompile(`^Asked to launch executor (\S+)`)
	ended      = regexp.MustCompile(`^Executor (\S+) finished with state ([A-Z]+)(?:.* exitStatus (-?\d+))?$`)
)

// The states of executors that ended by themselves, and that their workers ended.
const (
	stateExited = "EXITED"
	stateKilled = "KILLED"
)

// reports take what a worker says of its executors out of what it prints.
type reports struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte
	// executors are those that have begun: how each ended, nil while it has not.
	executors map[string]*ending
	// news is closed once another one has ended.
	news chan struct{}
}

// ending is how an executor ended.
type ending struct{ state, status string }

// Write implements io.Writer.
func (r *reports) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []byte
	r.rest = append(r.rest, p...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			break
		}
		r.rest = rest
		if says := workerInfo.FindSubmatch(line); says != nil {
			r.heed(string(says[1]))
			continue
		}
		others = append(append(others, line...), '\n')
	}
	if _, err := r.to.Write(others); err != nil {
		return 0, err
	}
	return len(p), nil
}

// heed notes what a worker says; the caller holds the lock.
func (r *reports) heed(says string) {
	if found := began.FindStringSubmatch(says); found != nil {
		if r.executors == nil {
			r.executors = map[string]*ending{}
		}
		r.executors[found[1]] = nil
	}
	if found := ended.FindStringSubmatch(says); found != nil {
		r.executors[found[1]] = &ending{state: found[2], status: found[3]}
		if r.news != nil {
			close(r.news)
			r.news = nil
		}
	}
}

// running are the executors that have not ended.
func (r *reports) running() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, end := range r.executors {
		if end == nil {
			names = append(names, name)
		}
	}
	return names
}

// await waits until executors have ended, and says in which state the last one did, and
// whether that was in order: there was one, and it ended well.
func (r *reports) await(running []string, gone <-chan struct{}) (last string, inOrder bool) {
	inOrder = len(running) > 0
	for _, name := range running {
		end, there := r.end(name, gone)
		if !there {
			return "", false
		}
		last, inOrder = end.state, inOrder && *end == ending{state: stateExited, status: "0"}
	}
	return last, inOrder
}

// end waits until an executor has ended; false: its worker is gone before it said so.
func (r *reports) end(name string, gone <-chan struct{}) (*ending, bool) {
	for {
		r.mu.Lock()
		end, news := r.executors[name], r.news
		if end == nil && news == nil {
			r.news = make(chan struct{})
			news = r.news
		}
		r.mu.Unlock()
		if end != nil {
			return end, true
		}
		select {
		case <-news:
		case <-gone:
			return nil, false
		}
	}
}

// children are the processes that one has started.
func children(pid int) (found []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}
