package spark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// Driver is the member that runs the master and the script.
type Driver struct {
	// Datum is the folder of the datum: what the script writes is in its output,
	// what it prints in its log.
	Datum string
	// Address is where executors reach the master, as host:port.
	Address string
	// Python runs the script; Script and Args are the words after it.
	Python, Script string
	Args           []string
	// Tries is how often the script is run before the application has failed, and
	// Timeout how long each try may take; 0: for ever.
	Tries   int
	Timeout time.Duration
	// Heap is that of the driver, ExecutorHeap that of each executor, in MiB.
	Heap, ExecutorHeap int64
	// Scratch is a folder of the member's own.
	Scratch string
	// Apart says that members share no folder: what each wrote is put together later.
	Apart bool
	// Own says that members, which may be at one address, see no files of one another's but
	// the folder of the datum.
	Own bool
	// Leaves says, of members that share no folder, that executors may go before the
	// application is done, and come.
	Leaves bool
	// Environ are the variables that everything has.
	Environ []string
	// Out is told what the script prints, and what Spark and Muster have to say.
	Out io.Writer
}

// Run runs the application to its end, and notes what became of it in the folder
// of the datum. The error is [ErrStopped] where it was told to stop: then nothing
// is noted, and it can be run again.
func (d *Driver) Run(ctx context.Context) (err error) {
	if err := os.Remove(filepath.Join(d.Datum, shift.OutcomeFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("clearing the folder of the datum: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(d.Datum, shift.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, theirs)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	a := &application{Driver: d, out: io.MultiWriter(d.Out, log)}
	o := shift.Outcome{ID: filepath.Base(d.Datum), Worker: "driver", Started: time.Now()}
	err = a.run(ctx)
	o.Took = time.Since(o.Started)
	if err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(log, "muster: %v\n", err) // whoever called says it to Out
	}
	err = errors.Join(err, log.Close())
	if ctx.Err() != nil && err != nil {
		return ErrStopped
	}
	if err != nil {
		o.Exit, o.Error = max(1, a.exit), err.Error()
		if code := lasting(err); code != 0 && d.Apart {
			o.Exit = code
		}
	}
	return errors.Join(err, conclude(d.Datum, o))
}

// application is one start of a driver.
type application struct {
	*Driver
	out      io.Writer
	spark    *Installation
	settings Settings
	environ  []string
	master   *program
	// exit is the script's, of the last try.
	exit int
}

func (a *application) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.out, "muster: "+format+"\n", args...)
}

func (a *application) run(ctx context.Context) error {
	if err := a.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		if a.master != nil {
			a.master.halt()
		}
	}()
	for {
		n, err := tried(a.Datum)
		if err != nil {
			return err
		}
		if n >= a.Tries {
			return fmt.Errorf("the driver was ended %d times before the script was done", n)
		}
		if err := errors.Join(begin(a.Datum), empty(filepath.Join(a.Datum, shift.OutFolder))); err != nil {
			return err
		}
		err = a.try(ctx)
		if err == nil || ctx.Err() != nil || n+1 >= a.Tries || lasting(err) != 0 {
			return err
		}
		a.say("%v; it is tried again (%d of %d)", err, n+2, a.Tries)
	}
}

// prepare finds Spark and writes its settings.
func (a *application) prepare(ctx context.Context) error {
	host, port, err := net.SplitHostPort(a.Address)
	if err != nil {
		return fmt.Errorf("reading where the master listens: %w", err)
	}
	if a.spark, err = Find(ctx, Where{Python: a.Python, JavaHome: os.Getenv("JAVA_HOME")}); err != nil {
		return err
	}
	if host, err = own(ctx, host); err != nil {
		return err
	}
	secret, err := makeSecret(a.Datum)
	if err != nil {
		return err
	}
	a.settings = Settings{
		Master: net.JoinHostPort(host, port), Host: host, Secret: secret, Pages: randomText(),
		DriverHeap: a.Heap, ExecutorHeap: a.ExecutorHeap, Scratch: a.Scratch, Apart: a.Apart, Own: a.Own, Leaves: a.Leaves,
	}
	conf, err := a.settings.write()
	if err != nil {
		return err
	}
	a.environ, err = a.settings.environ(a.Environ, a.spark, conf, a.Python)
	return err
}

// try runs the script once.
func (a *application) try(ctx context.Context) error {
	a.exit = 0
	if err := a.ensureMaster(ctx); err != nil {
		return err
	}
	words := append([]string{a.Python, a.Script}, a.Args...)
	script, err := start(ctx, a.environ, a.out, words...)
	if err != nil {
		return err
	}
	defer script.halt()
	var late <-chan time.Time
	if a.Timeout > 0 {
		timer := time.NewTimer(a.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-script.ended:
	case <-a.master.ended:
		return fmt.Errorf("the master %s", inWords(a.master.err))
	case <-late:
		return fmt.Errorf("the script was stopped: it took longer than %s (timeout)", a.Timeout)
	case <-ctx.Done():
		return ErrStopped
	}
	if a.exit = exitCode(script.err); script.err != nil {
		return fmt.Errorf("the script %s %s", a.Script, inWords(script.err))
	}
	if a.Leaves {
		if err := repeated(a.settings.events()); err != nil {
			return err
		}
	}
	out := filepath.Join(a.Datum, shift.OutFolder)
	tidying := tidy
	if a.Apart {
		tidying = tidied
	}
	// The receiver of the output checks it: there links to inputs become their targets. An output that
	// cannot be kept is no reason to run the script again: it would write the same.
	return tidying(out)
}

// ensureMaster has a master run, and waits until it listens.
func (a *application) ensureMaster(ctx context.Context) error {
	if a.master != nil && a.master.running() {
		return nil
	}
	host, port, err := net.SplitHostPort(a.settings.Master)
	if err != nil {
		return fmt.Errorf("reading where the master listens: %w", err)
	}
	words := append(a.spark.class("master.Master"), "--host", host, "--port", port, "--webui-port", "0")
	if a.master, err = start(ctx, a.environ, a.out, words...); err != nil {
		return err
	}
	if _, _, err := reach(ctx, a.settings.Master, a.master.ended); errors.Is(err, ErrStopped) {
		return err
	} else if err != nil {
		<-a.master.ended
		return fmt.Errorf("the master %s before it listened at %s", inWords(a.master.err), a.settings.Master)
	}
	return nil
}
