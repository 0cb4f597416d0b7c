// Package spark is the hidden command `muster spark`: what the members of the job
// run that is a Spark stage of a pipeline. Nobody types it.
package spark

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/spark"
)

// stopped is the exit code of a member that was told to stop: that of a program
// that SIGTERM ends, so that it is started again where it is still wanted.
const stopped exit.Code = 143

// options are the flags of both members.
type options struct {
	datum, python, script string
	tries                 int
	timeout               time.Duration
	heap, executorHeap    int64
	slots                 int64
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:    "spark driver|executor --datum FOLDER",
		Short:  "Be a member of a Spark application (what jobs of Spark stages run)",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.datum == "" || args[0] != "driver" && args[0] != "executor" {
				return exit.Usage("muster spark is run by the jobs of pipelines: use `muster pipeline`")
			}
			master, err := spark.DriverAddress(os.Getenv("DRIVER_HOSTS"))
			if err != nil {
				return err
			}
			scratch := filepath.Join(os.Getenv(v1alpha1.EnvRoot), strings.TrimPrefix(v1alpha1.SparkPath, v1alpha1.PodRoot))
			if args[0] == "driver" {
				d := &spark.Driver{
					Datum: o.datum, Address: master, Python: o.python, Script: o.script, Args: args[1:], Tries: o.tries, Timeout: o.timeout,
					Heap: o.heap, ExecutorHeap: o.executorHeap, Scratch: scratch, Environ: os.Environ(), Out: f.Streams.Out,
				}
				return coded(d.Run(cmd.Context()))
			}
			code, err := os.Getwd()
			if err != nil {
				return fmt.Errorf("finding the code: %w", err)
			}
			e := &spark.Executor{
				Datum: o.datum, Master: master, Python: o.python, Slots: o.slots, Heap: o.heap, Code: code,
				Scratch: scratch, Environ: os.Environ(), Out: f.Streams.Out,
			}
			return coded(e.Run(cmd.Context()))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.datum, "datum", "", "folder of the datum")
	flags.StringVar(&o.python, "python", "python3", "interpreter")
	flags.StringVar(&o.script, "script", "", "script of the driver")
	flags.IntVar(&o.tries, "tries", 1, "how often the script is run at most")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long a try may take; 0: for ever")
	flags.Int64Var(&o.heap, "heap", 0, "heap in MiB")
	flags.Int64Var(&o.executorHeap, "executor-heap", 0, "heap of each executor in MiB")
	flags.Int64Var(&o.slots, "slots", 1, "tasks at a time")
	return cmd
}

// coded gives an end the exit code by which the job knows it.
func coded(err error) error {
	if errors.Is(err, spark.ErrStopped) {
		return exit.With(stopped, nil)
	}
	return err
}
