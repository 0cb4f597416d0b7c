package spark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// workerMemory is how much a worker has beyond the heap that it is asked for, so
// that a script may ask for somewhat more, in MiB.
const workerMemory = 64

// Executor is a member that runs a worker of Spark's standalone mode, and by it an
// executor.
type Executor struct {
	// Datum is the folder of the datum.
	Datum string
	// Master is where the master listens, or will, as host:port.
	Master string
	// Python is the interpreter whose packages count, and that tasks run with.
	Python string
	// Slots is how many tasks it runs at a time, Heap its heap in MiB.
	Slots, Heap int64
	// Code is the folder that tasks import from.
	Code string
	// Scratch is a folder of the member's own.
	Scratch string
	// Apart says that members share no folder: this one's has what its tasks write.
	Apart bool
	// Leaves says that it may go before the application is done: where it is told to stop
	// and shift.LeaveFile is in the folder of the datum, it gives its executor back.
	Leaves bool
	// Environ are the variables that everything has.
	Environ []string
	// Out is told what executors print, and what Spark has to say.
	Out io.Writer
}

// Run serves the application until it is told to stop, which is [ErrStopped], however
// far it came: one that is slow may still be looking for its Java. The error is nil where
// it gave its executor back, and nobody relies on it any more. Any other end is one that
// should not be.
func (e *Executor) Run(ctx context.Context) error {
	err := e.run(ctx)
	if err != nil && ctx.Err() != nil {
		err = ErrStopped
	}
	if !e.Apart {
		return err
	}
	out := filepath.Join(e.Datum, shift.OutFolder)
	if lasting(err) == 0 {
		if failed := tidied(out); failed != nil {
			err = failed // what is there is not all that was written, or more
		}
	}
	if code := lasting(err); code != 0 {
		return errors.Join(err, conclude(e.Datum, shift.Outcome{Exit: code, Error: err.Error()}))
	}
	return err
}

func (e *Executor) run(ctx context.Context) error {
	spark, err := Find(ctx, Where{Python: e.Python, JavaHome: os.Getenv("JAVA_HOME")})
	if err != nil {
		return err
	}
	secret, err := awaitSecret(ctx, e.Datum)
	if err != nil {
		return err
	}
	from, to, err := reach(ctx, e.Master, nil)
	if err != nil {
		return err
	}
	settings := Settings{Master: to, Host: from, Secret: secret, Pages: randomText(), Scratch: e.Scratch, Apart: e.Apart, Leaves: e.Leaves}
	conf, err := settings.write()
	if err != nil {
		return err
	}
	environ, err := settings.environ(e.Environ, spark, conf, e.Python)
	if err != nil {
		return err
	}
	environ = append(environ, "PYTHONPATH="+pythonPath(e.Code, environ))
	work := filepath.Join(e.Scratch, "work")
	out := &turns{to: e.Out}
	said := &reports{to: out}
	words := append(spark.class("worker.Worker"), "--host", from, "--port", "0", "--webui-port", "0",
		"--cores", strconv.FormatInt(e.Slots, 10), "--memory", strconv.FormatInt(e.Heap+workerMemory, 10)+"m",
		"--work-dir", work, "spark://"+to)
	w, err := start(ctx, environ, said, words...)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() { follow(w.ended, work, out) })
	defer group.Wait()
	defer w.halt()
	select {
	case <-ctx.Done():
		if e.leaves() {
			return giveBack(w, said)
		}
		// At once: a worker that has time to say that its executor ended has Spark
		// count that as a failure of the tasks there. Lost together, they move.
		w.kill()
		return ErrStopped
	case <-w.ended:
	}
	return fmt.Errorf("the worker of Spark %s: it is started again", inWords(w.err))
}

// pythonPath has tasks import what lies beside the script.
func pythonPath(code string, environ []string) string {
	for _, pair := range slices.Backward(environ) {
		if was, ok := strings.CutPrefix(pair, "PYTHONPATH="); ok && was != "" {
			return code + string(os.PathListSeparator) + was
		}
	}
	return code
}

// turns lets several write, one after the other.
type turns struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (t *turns) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to.Write(p)
}

// DriverAddress is where the master of a gang listens: the only member of the
// driver's role.
func DriverAddress(hosts string) (string, error) {
	if _, _, err := net.SplitHostPort(hosts); err != nil || strings.Contains(hosts, ",") {
		return "", errors.New("DRIVER_HOSTS names no driver: this is run by the jobs of pipelines")
	}
	return hosts, nil
}
