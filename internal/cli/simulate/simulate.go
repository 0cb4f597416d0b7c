package simulate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	simulation "github.com/muster-dev/muster/internal/simulate"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// The formats that only this command has.
const (
	tableFormat output.Format = "table"
	csvFormat   output.Format = "csv"
)

// The traces.
const (
	philly    = "philly"
	openb     = "openb"
	synthetic = "synthetic"
)

type options struct {
	streams terminal.Streams
	format  *output.Format

	trace, file, nodesFile string
	from, to               string
	nodes, gpusPerNode     int
	limits                 string
	policies               []string
	seeds                  int
	seed                   uint64
	restart                time.Duration
	fairness               bool
	jobs                   int
	load                   float64
	knows                  string

	window trace.Window
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{streams: f.Streams}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Replay a trace in virtual time and compare scheduling policies",
		Long: `Replays a trace in virtual time, with the code that schedules in earnest and with
policies to compare it with, and prints what became of the jobs, always by size
of the gang as well: an average alone rewards starving large gangs. It needs no
Muster and changes nothing, and the same command prints the same bytes.

--trace synthetic makes up a workload (--jobs, --load, --seed). --trace philly
reads jobs that come and go: CSV with the columns timestamp, duration (s),
num_gpus and cluster. --trace openb reads pods that come and stay until the
cluster is full, with the nodes in --nodes-file.

What jobs declare about their run time is not in the traces. --limits says what
the replay pretends: none; exact, the true run time; coarse, the true run time
rounded up to 1 h, 4 h, 16 h, 64 h and so on; coarse-x5, the same divided or
multiplied by 5 at random.

Policies for jobs that come and go:
` + describe() + `
Policies for packing (--trace openb): ` + strings.Join(packingPolicies(), ", ") + `.`,
		Example: `  muster simulate
  muster simulate --trace philly --file philly.csv --from 2017-10-09 --to 2017-11-08 --nodes 72 --policy greedy-bestfit,easy
  muster simulate --trace openb --file openb_pod_list_default.csv --nodes-file openb_node_list_gpu_node.csv -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("simulate takes no arguments; the trace is named by --trace and --file")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd); err != nil {
				return err
			}
			if o.trace == openb {
				return o.pack(cmd.Context())
			}
			return o.replay(cmd.Context())
		},
	}
	o.addFlags(cmd)
	return cmd
}

// describe lists the policies, a line each.
func describe() string {
	table := terminal.NewTable()
	for _, name := range simulation.Policies() {
		table.Row(name, simulation.About(name))
	}
	var text strings.Builder
	_ = table.Write(&text, terminal.Coloured(false), "  ")
	return text.String()
}

func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.trace, "trace", synthetic, "what to replay: "+strings.Join([]string{philly, openb, synthetic}, ", "))
	flags.StringVar(&o.file, "file", "", "the trace's jobs or pods")
	flags.StringVar(&o.nodesFile, "nodes-file", "", "the trace's nodes (openb)")
	flags.StringVar(&o.from, "from", "", `first submission that counts: "2017-10-09" or "2017-10-09 12:00:00" (philly)`)
	flags.StringVar(&o.to, "to", "", "a day: the last that counts; a time: the first that does not (philly)")
	flags.IntVar(&o.nodes, "nodes", 82, "how many nodes there are (philly, synthetic)")
	flags.IntVar(&o.gpusPerNode, "gpus-per-node", 8, "how many GPUs each has (philly, synthetic)")
	flags.StringVar(&o.limits, "limits", string(simulation.CoarseLimits), "what jobs declare about their run time: "+strings.Join(limitNames(), ", "))
	flags.StringSliceVar(&o.policies, "policy", nil, "policies to compare, with commas between them (default: all)")
	flags.IntVar(&o.seeds, "seeds", 0, "how many seeds to run where something is random (default: 1; openb: 10)")
	flags.Uint64Var(&o.seed, "seed", 1, "the first seed")
	flags.DurationVar(&o.restart, "restart-cost", time.Minute, "what a preempted job runs longer (philly, synthetic)")
	flags.BoolVar(&o.fairness, "fairness", true, "also run every queue alone, to measure fairness (philly, synthetic)")
	flags.IntVar(&o.jobs, "jobs", 20_000, "how many jobs to make up (synthetic)")
	flags.Float64Var(&o.load, "load", 0.95, "how much of the cluster they need (synthetic)")
	flags.StringVar(&o.knows, "knows", knowsTrace, "what policies know of the mix of pods: trace (all of it, as published figures assume) or arrivals (openb)")
	o.format = output.Flag(cmd, tableFormat, csvFormat, output.JSON)
	for name, words := range map[string][]string{
		"trace":  {philly, openb, synthetic},
		"limits": limitNames(),
		"knows":  {knowsTrace, knowsArrivals},
		"policy": slices.Concat(simulation.Policies(), packingPolicies()),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

func limitNames() []string {
	var names []string
	for _, one := range simulation.AllLimits() {
		names = append(names, string(one))
	}
	return names
}

// belongs says which flags make sense for which traces; the others do for all.
var belongs = []struct {
	flag   string
	traces []string
}{
	{"file", []string{philly, openb}},
	{"nodes-file", []string{openb}},
	{"from", []string{philly}},
	{"to", []string{philly}},
	{"nodes", []string{philly, synthetic}},
	{"gpus-per-node", []string{philly, synthetic}},
	{"limits", []string{philly, synthetic}},
	{"restart-cost", []string{philly, synthetic}},
	{"fairness", []string{philly, synthetic}},
	{"jobs", []string{synthetic}},
	{"load", []string{synthetic}},
	{"knows", []string{openb}},
}

func (o *options) validate(cmd *cobra.Command) error {
	traces := []string{philly, openb, synthetic}
	if _, err := os.Stat(o.trace); err == nil && !slices.Contains(traces, o.trace) {
		return exit.Usage("--trace %[1]s: name the kind of trace, and the file by --file: --trace philly --file %[1]s; kinds are %[2]s", o.trace, strings.Join(traces, ", "))
	}
	if !slices.Contains(traces, o.trace) {
		return exit.Usage("--trace %s: there is no such trace; allowed are %s%s", o.trace, strings.Join(traces, ", "), suggestion.Phrase(o.trace, traces))
	}
	for _, one := range belongs {
		if cmd.Flags().Changed(one.flag) && !slices.Contains(one.traces, o.trace) {
			return exit.Usage("--%s says nothing with --trace %s; it goes with --trace %s", one.flag, o.trace, strings.Join(one.traces, " or "))
		}
	}
	if o.trace != synthetic && o.file == "" {
		return exit.Usage("--trace %s: --file is missing: which file is it in?", o.trace)
	}
	if o.trace == openb && o.nodesFile == "" {
		return exit.Usage("--trace openb: --nodes-file is missing: which file are the nodes in?")
	}
	if cmd.Flags().Changed("seeds") && (o.seeds < 1 || o.seeds > 1000) {
		return exit.Usage("--seeds %d: allowed are 1 to 1000", o.seeds)
	}
	if !slices.Contains(limitNames(), o.limits) {
		return exit.Usage("--limits %s: there are no such limits; allowed are %s%s", o.limits, strings.Join(limitNames(), ", "), suggestion.Phrase(o.limits, limitNames()))
	}
	if o.knows != knowsTrace && o.knows != knowsArrivals {
		return exit.Usage("--knows %s: allowed are %s and %s", o.knows, knowsTrace, knowsArrivals)
	}
	if err := o.cluster().Validate(); err != nil {
		return exit.Usage("--nodes %d --gpus-per-node %d: %v", o.nodes, o.gpusPerNode, err)
	}
	if o.restart < 0 || o.restart > 365*24*time.Hour {
		return exit.Usage("--restart-cost %v: allowed is 0s to 8760h", o.restart)
	}
	if err := o.validatePolicies(); err != nil {
		return err
	}
	if err := o.validateWindow(); err != nil {
		return err
	}
	return o.format.Validate(tableFormat, csvFormat, output.JSON)
}

// validatePolicies checks the policies' names, and means all where none is
// given.
func (o *options) validatePolicies() error {
	allowed, others, kind := simulation.Policies(), packingPolicies(), "packing pods (--trace openb)"
	if o.trace == openb {
		allowed, others, kind = others, allowed, "jobs that come and go (--trace philly or synthetic)"
	}
	if len(o.policies) == 0 {
		o.policies = allowed
		return nil
	}
	given := o.policies
	o.policies = nil
	for _, name := range given {
		name = strings.TrimSpace(name)
		if slices.Contains(allowed, name) {
			if !slices.Contains(o.policies, name) {
				o.policies = append(o.policies, name)
			}
			continue
		}
		if slices.Contains(others, name) {
			return exit.Usage("--policy %s is for %s; with --trace %s allowed are %s", name, kind, o.trace, strings.Join(allowed, ", "))
		}
		return exit.Usage("--policy %s: there is no such policy; allowed are %s%s", name, strings.Join(allowed, ", "), suggestion.Phrase(name, allowed))
	}
	return nil
}

// validateWindow reads --from and --to. A day as the end belongs to the window.
func (o *options) validateWindow() error {
	from, _, err := moment("--from", o.from)
	if err != nil {
		return err
	}
	to, day, err := moment("--to", o.to)
	if err != nil {
		return err
	}
	if day {
		to = to.AddDate(0, 0, 1)
	}
	if !to.IsZero() && !from.Before(to) {
		return exit.Usage("--from %s --to %s: nothing lies between them", o.from, o.to)
	}
	o.window = trace.Window{From: from, To: to}
	return nil
}

// moment reads a day or a time; empty is no bound.
func moment(flag, given string) (at time.Time, day bool, err error) {
	if given == "" {
		return time.Time{}, false, nil
	}
	if at, err = time.Parse(time.DateOnly, given); err == nil {
		return at, true, nil
	}
	for _, layout := range []string{trace.Layout, "2006-01-02T15:04:05"} {
		if at, err = time.Parse(layout, given); err == nil {
			return at, false, nil
		}
	}
	return time.Time{}, false, exit.Usage("%s %q: allowed is a day such as 2017-10-09 or a time such as \"2017-10-09 12:00:00\"", flag, given)
}

func (o *options) cluster() simulation.ClusterSpec {
	return simulation.ClusterSpec{Nodes: o.nodes, GPUsPerNode: o.gpusPerNode, WholeNodes: true}
}

// open opens a file that was named on the command line.
func open(flag, name string) (*os.File, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.NotFound("%s %s: there is no such file", flag, name)
	}
	return file, err
}

// stopped turns the end of the context into the exit code of a ^C.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exit.With(exit.Interrupted, nil)
	}
	return err
}
