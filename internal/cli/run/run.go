package run

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.YAML, output.JSON, output.Name}

type options struct {
	factory *connection.Factory
	format  *output.Format
	flags   Flags
	detach  bool
	dryRun  bool
	numbers numbers
}

// numbers are the flags for which 0 and "not given" differ.
type numbers struct {
	workers            workers
	ps, nodes, backoff int
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		SuggestFor: []string{"submit", "launch"},
		Use:        "run [flags] [--] command [args...]",
		Short:      "Run a script or command on GPUs, alone or distributed",
		Long: `Runs a command in a snapshot of this folder, on as many members and GPUs as
asked for, streams what they write and ends with the script's exit code.

All members start together or none does; while the job waits it holds no GPU,
and says why it waits. ^C stops the job and waits until its GPUs are free; a
second ^C leaves at once. Roles of TensorFlow find TF_CONFIG, those of PyTorch
what torch.distributed and torchrun read: torchrun needs no flags, and starts a
process for each GPU. In the command, $(PS_HOSTS), $(WORKER_HOSTS), $(ROLE) and
$(INDEX) are replaced, for scripts that take them as flags.

With --resumable you say that the script saves its state in the folder
$MUSTER_CHECKPOINT_DIR and goes on from there when it is started again. Such a
job may be stopped to make room for shorter work: its members get SIGTERM and 30
seconds to save what they have, and it starts again, by itself, when there is
room. That is no failure and uses up no restart. Jobs without it are not stopped
for shorter work.

With --workers 1..8 the job starts on one worker and is given more, one by one,
while there are GPUs that nobody waits for; they are given back first. A worker
that is given back gets SIGTERM and 30 seconds, and runs again later, with the
same $(INDEX). Every index has to succeed in the end; one that finds nothing
left to do exits with 0 at once.`,
		Example: `  muster run --gpus 1 -- python train.py --epochs 5
  muster run --workers 3 --ps 2 --script train.py --requirements requirements.txt
  muster run --nodes 4 --gpus H100:8 --max-time 4h -- torchrun train.py
  muster run --gpus 250m -- python small.py
  muster run --gpus 1 --data digits@v1:/train=/data -- python train.py
  muster run --gpu-memory 8Gi -- python small.py
  muster run --nodes 4 --gpus H100:8 --within rack -- torchrun train.py
  muster run --gpus 1 --queue vision --expect 2h --resumable -- python train.py
  muster run --workers 1..8 --gpus 1 -- python sweep.py
  muster run --workers 2 --ps 1 -- python old.py '--ps_hosts=$(PS_HOSTS)' '--worker_hosts=$(WORKER_HOSTS)' '--job_name=$(ROLE)' '--task_index=$(INDEX)'
  muster run --dry-run -o yaml -- python train.py > job.yaml && muster apply -f job.yaml`,
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.complete(cmd.Flags(), args)
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, formats...)
	o.addFlags(cmd.Flags())
	completeStanding(cmd, f)
	for _, flag := range []string{"within", "near", "apart", "spread"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(levelNames(), cobra.ShellCompDirectiveNoFileComp))
	}
	_ = cmd.RegisterFlagCompletionFunc("data", opening.Complete(f))
	_ = cmd.RegisterFlagCompletionFunc("framework", cobra.FixedCompletions([]string{"TensorFlow", "PyTorch", "None"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	// Everything after the command belongs to it, with -- or without.
	flags.SetInterspersed(false)
	flags.StringVar(&o.flags.Name, "name", "", "name of the job (default: the script's or folder's, and a random end)")
	flags.Var(&o.numbers.workers, "workers", "number of workers; implies --framework TensorFlow. MIN..MAX: start with MIN, and use idle GPUs for more, up to MAX; implies None")
	flags.IntVar(&o.numbers.ps, "ps", 0, "number of parameter servers; they get no GPU")
	flags.BoolVar(&o.flags.Chief, "chief", false, "add a chief; the job succeeds when it does")
	flags.BoolVar(&o.flags.Evaluator, "evaluator", false, "add an evaluator; it gets no GPU")
	flags.IntVar(&o.numbers.nodes, "nodes", 0, "number of equal members; implies --framework PyTorch")
	flags.StringVar(&o.flags.GPUs, "gpus", "", "GPUs of each worker: a number, or models and a number: 2, A100:2, A100,H100:2; or a share of one: 250m, 0.25, A100:250m")
	flags.StringVar(&o.flags.GPUMemory, "gpu-memory", "", "memory of one GPU that each worker gets, and the same part of the GPU: 8Gi; with --gpus 250m both are given")
	flags.StringVar(&o.flags.CPUs, "cpus", "", "CPUs that each member needs: 4, 500m (default 100m)")
	flags.StringVar(&o.flags.Memory, "memory", "", "memory that each member needs: 16Gi (default 128Mi)")
	flags.StringVar(&o.flags.Framework, "framework", "", "TensorFlow, PyTorch or None (default: as --workers, --nodes or torchrun imply)")
	flags.StringVarP(&o.flags.Requirements, "requirements", "r", "", "requirements file to install into an environment of its own, built once and cached; for the Python of the job's image where it has one")
	flags.StringVar(&o.flags.IndexSecret, "index-secret", "", "Secret of the namespace whose key netrc has the passwords of package indexes, for --requirements")
	flags.StringVar(&o.flags.Python, "python", "", "folder of a virtual or conda environment, or a version for --requirements: 3.11")
	flags.StringVar(&o.flags.Image, "image", "", "container image to run in")
	flags.StringVar(&o.flags.Script, "script", "", "Python or shell script to run: a file, or a URL; the words after -- are its arguments")
	flags.StringVar(&o.flags.Code, "code", "", "folder that the members get a copy of, or none (default: the script's, else this folder)")
	flags.StringArrayVar(&o.flags.Volumes, "volume", nil, "folder that members share: SIZE:PATH for a new one, CLAIM:PATH for an existing claim; repeatable")
	flags.StringArrayVar(&o.flags.Data, "data", nil, "data that members read: DATASET[@VERSION][:PATH][=MOUNT]; it is there before GPUs are asked for, and found by the variable MUSTER_DATA_<DATASET>; repeatable")
	flags.BoolVar(&o.flags.Lazy, "lazy", false, "read what --data names as it is asked for, from a mount, instead of fetching it before the job starts")
	flags.StringVar(&o.flags.Queue, "queue", "", "queue that the job is charged to (default \"default\")")
	flags.StringVar(&o.flags.Priority, "priority", "", "priority class: of jobs that wait in a queue, the one of the higher class starts first")
	flags.StringVar(&o.flags.Within, "within", "", "all members must be in one zone, rack, nvlink (NVLink domain) or node; wait until one has room")
	flags.StringVar(&o.flags.Near, "near", "", "all members in one zone, rack, nvlink or node if one has room, else as near as there is room")
	flags.StringVar(&o.flags.Apart, "apart", "", "no two members of a role may be in one node, nvlink, rack or zone")
	flags.StringVar(&o.flags.Spread, "spread", "", "members of a role in as many nodes, nvlinks, racks or zones as have room")
	flags.StringVar(&o.flags.Expect, "expect", "", "how long you think it runs: 90m, 2h, 2d12h; orders what waits, and stops nothing")
	flags.BoolVar(&o.flags.Resumable, "resumable", false, "it goes on from its last checkpoint when started again, so it may be stopped for a while to make room")
	flags.StringArrayVarP(&o.flags.Env, "env", "e", nil, "variable for every member: NAME=VALUE, or NAME for this shell's; repeatable")
	flags.StringVar(&o.flags.MaxTime, "max-time", "", "stop the job after this long: 90m, 4h, 2d12h")
	flags.IntVar(&o.numbers.backoff, "backoff-limit", 0, "failures that are restarted before the job fails (default 6; 0 for a single member)")
	flags.StringVar(&o.flags.Checkpoints, "checkpoints", "", "claim that holds the checkpoints, so that a later job can go on; or the size of a new one (default 10Gi); or none")
	flags.BoolVarP(&o.detach, "detach", "d", false, "return once the job is accepted")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the TrainingJob and run nothing")
}

// complete takes over what only the flag set knows: what was given at all.
func (o *options) complete(flags *pflag.FlagSet, args []string) {
	given := func(name string, value int) *int {
		if !flags.Changed(name) {
			return nil
		}
		return &value
	}
	o.flags.Workers, o.flags.MinWorkers = given("workers", o.numbers.workers.most), nil
	if o.numbers.workers.ranged {
		o.flags.MinWorkers = &o.numbers.workers.least
	}
	o.flags.PS = given("ps", o.numbers.ps)
	o.flags.Nodes = given("nodes", o.numbers.nodes)
	o.flags.BackoffLimit = given("backoff-limit", o.numbers.backoff)
	o.flags.Command = args
	flags.Visit(func(flag *pflag.Flag) {
		if flag.Value.Type() == "string" && flag.Value.String() == "" {
			o.flags.empty = append(o.flags.empty, "--"+flag.Name)
		}
	})
	if o.dryRun && *o.format == output.Human {
		*o.format = output.YAML
	}
	// An object on standard output and the members' words do not mix.
	o.detach = o.detach || *o.format != output.Human
}

func (o *options) validate() error {
	if err := o.format.Validate(formats...); err != nil {
		return err
	}
	return o.flags.check()
}

func (o *options) run(ctx context.Context) error {
	in, err := o.prepare()
	if err != nil {
		return err
	}
	planned, err := Build(o.flags, in)
	if err != nil {
		return err
	}
	var server client.WithWatch
	if !o.dryRun {
		// Before any work is done, so that its absence is told at once.
		if server, err = o.factory.Client(); err != nil {
			return err
		}
	}
	if err := o.checkIndexSecret(ctx, server, in.Namespace); err != nil {
		return err
	}
	if in.Snapshot, err = o.snapshot(ctx, planned); err != nil {
		return err
	}
	if err := o.checkPackages(in); err != nil {
		return err
	}
	if err := o.send(ctx, in); err != nil {
		return err
	}
	job, err := Build(o.flags, in)
	if err != nil {
		return err
	}
	if o.dryRun {
		o.warn(launcherAdvice(&job.Spec, false)) // GPUs' names are not known without a server
		return o.print(job)
	}
	if err := o.create(ctx, server, job); err != nil {
		return err
	}
	o.adviseStanding(ctx, server, job)
	switch {
	case *o.format != output.Human:
		return o.print(job)
	case o.detach:
		err := o.farewell(job)
		o.adviseGPUs(ctx, server, job)
		return err
	}
	return o.attend(ctx, server, job)
}

// print writes the job in the chosen format.
func (o *options) print(job *v1alpha1.TrainingJob) error {
	if *o.format == output.Name {
		_, err := fmt.Fprintln(o.factory.Streams.Out, output.Reference(v1alpha1.GroupVersion.WithKind("TrainingJob").GroupKind(), job.Name))
		return err
	}
	job.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TrainingJob"))
	tree, err := output.Manifest(job)
	if err != nil {
		return err
	}
	return output.Print(o.factory.Streams.Out, *o.format, tree)
}

// farewell names the job and what to do next.
func (o *options) farewell(job *v1alpha1.TrainingJob) error {
	style := o.factory.Streams.OutStyle()
	_, err := fmt.Fprintf(o.factory.Streams.Out, "%s\n\n  muster logs -f %[2]s    its output\n  muster why %[2]s        what it waits for\n  muster delete %[2]s     stop it and free its GPUs\n",
		style.Paint(terminal.Bold, job.Name), job.Name)
	return err
}
