package spark

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Verb is the first word of a member of a Spark application, and DriverVerb and
// ExecutorVerb are the second.
const (
	Verb         = "spark"
	DriverVerb   = "driver"
	ExecutorVerb = "executor"
)

// Exit codes of [Main]. A member that was told to stop ends as a program that SIGTERM
// ends, so that it is started again where it is still wanted.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitStopped = 128 + int(syscall.SIGTERM)
)

// usage is what is said to whoever types it.
const usage = "muster spark is run by the jobs of pipelines: use `muster pipeline`"

// options are the flags of both members.
type options struct {
	Driver
	slots int64
}

// Main is one member, by its words after [Verb]. What it keeps while it runs is in
// scratch unless they say otherwise. It returns the exit code.
func Main(ctx context.Context, args []string, scratch string, out, errs io.Writer) int {
	say := func(what any) { _, _ = fmt.Fprintf(errs, "muster: %v\n", what) }
	o := options{Driver: Driver{Scratch: scratch, Out: out, Environ: os.Environ()}}
	flags := flag.NewFlagSet("muster spark", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.Datum, "datum", "", "folder of the datum")
	flags.StringVar(&o.Python, "python", "python3", "interpreter")
	flags.StringVar(&o.Script, "script", "", "script of the driver")
	flags.StringVar(&o.Scratch, "scratch", scratch, "folder of the member's own")
	flags.BoolVar(&o.Apart, "apart", false, "members share no folder")
	flags.BoolVar(&o.Own, "own", false, "members see files of their own beside the datum's")
	flags.BoolVar(&o.Leaves, "leaves", false, "executors may go before the application is done")
	flags.IntVar(&o.Tries, "tries", 1, "how often the script is run at most")
	flags.DurationVar(&o.Timeout, "timeout", 0, "how long a try may take; 0: for ever")
	flags.Int64Var(&o.Heap, "heap", 0, "heap in MiB")
	flags.Int64Var(&o.ExecutorHeap, "executor-heap", 0, "heap of each executor in MiB")
	flags.Int64Var(&o.slots, "slots", 1, "tasks at a time")
	if len(args) == 0 || args[0] != DriverVerb && args[0] != ExecutorVerb {
		say(usage)
		return exitUsage
	}
	if err := flags.Parse(args[1:]); err != nil {
		return exitUsage
	}
	if o.Datum == "" {
		say(usage)
		return exitUsage
	}
	o.Args = flags.Args()
	switch err := o.run(ctx, args[0]); {
	case errors.Is(err, ErrStopped):
		return exitStopped
	case err != nil:
		say(err)
		return exitFailed
	}
	return 0
}

func (o *options) run(ctx context.Context, verb string) error {
	master, err := DriverAddress(os.Getenv("DRIVER_HOSTS"))
	if err != nil {
		return err
	}
	if verb == DriverVerb {
		o.Address = master
		return o.Run(ctx)
	}
	code, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the code: %w", err)
	}
	e := &Executor{
		Datum: o.Datum, Master: master, Python: o.Python, Slots: o.slots, Heap: o.Heap, Code: code,
		Scratch: o.Scratch, Apart: o.Apart, Leaves: o.Leaves, Environ: o.Environ, Out: o.Out,
	}
	return e.Run(ctx)
}
