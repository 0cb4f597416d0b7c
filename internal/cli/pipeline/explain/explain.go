// Package explain is the command `muster pipeline explain`.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
	recipe  bool
	// datum is the one that is asked about.
	datum string
	// ahead, with, files: of a run that is not there yet.
	ahead bool
	with  []string
	files []string
}

// Explained is one stage of a run, as -o json prints it.
type Explained struct {
	Stage   string               `json:"stage"`
	Phase   v1alpha1.RunPhase    `json:"phase,omitempty"`
	Message string               `json:"message,omitempty"`
	Why     string               `json:"why,omitempty"`
	Datums  v1alpha1.DatumCounts `json:"datums"`
	// Recipe is the digest of all that counts beside files: what acceptKeys takes.
	Recipe string `json:"recipe,omitempty"`
	// Parts are what it is made of, with --recipe.
	Parts map[string]string `json:"parts,omitempty"`
	// Computed are the datums that this run computed, with how they ended.
	Computed       []plans.Record     `json:"computed,omitempty"`
	Output         *v1alpha1.RunInput `json:"output,omitempty"`
	GPUSeconds     float64            `json:"gpuSeconds,omitempty"`
	GPUIdleSeconds float64            `json:"gpuIdleSeconds,omitempty"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "explain RUN|PIPELINE|-f FILE [PIPELINE] [STAGE]",
		Short: "Say why a run computed what it computed, or what one would compute",
		Long: `Says for each stage of a run what differed from the run before: which files of code,
packages, arguments, variables or data. With a stage it lists the datums that were
computed, and with --datum it says of one of them, computed or not, which files and what
else differed from the run before, and where its result comes from.

The recipe is the digest of all that counts beside data. Under acceptKeys a stage
may name the recipe that it had before: then the results of before count, and a
change that cannot matter computes nothing again.

With --next it says what a run of the pipeline would compute now, and about what that
costs, by results of before; so it does for a pipeline that has never run. --with has
it read another version of a dataset: of a branch that is to be merged, say. With -f it
says so for a pipeline as a file has it, before it is applied, or for one of several by
its name. Of stages whose inputs
are known only once others have run it says how much they would compute at most.`,
		Example: `  muster pipeline explain digits
  muster pipeline explain digits train --recipe
  muster pipeline explain digits prepare --datum 0001.png
  muster pipeline explain digits --next --with digits@candidate
  muster pipeline explain -f pipeline.yaml`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, true),
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().BoolVar(&o.ahead, "next", false, "what a run would compute now")
	cmd.Flags().StringArrayVar(&o.with, "with", nil, "with --next or -f, read this version of a dataset: DATASET@VERSION; repeatable")
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file of pipelines that are not applied yet, - for standard input; repeatable")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().BoolVar(&o.recipe, "recipe", false, "list what the recipe is made of")
	cmd.Flags().StringVar(&o.datum, "datum", "", "of a stage, why it computed this datum or did not")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		if o.datum != "" && (len(args) != 2 || o.ahead || len(o.files) > 0) {
			return exit.Usage("--datum %s: of which stage of which run? muster pipeline explain RUN|PIPELINE STAGE --datum %s", o.datum, o.datum)
		}
		if len(o.files) > 0 {
			if len(args) > 2 {
				return exit.Usage("with -f give a pipeline of the file and a stage at most: leave out %q", args[2])
			}
			return o.file(cmd.Context(), args)
		}
		switch len(args) {
		case 0:
			return exit.Usage("name a run, or a pipeline for its last one, or give -f FILE")
		case 1, 2:
		default:
			return exit.Usage("a run and a stage at most: what is %q?", args[2])
		}
		if o.ahead {
			return o.next(cmd.Context(), args)
		}
		if len(o.with) > 0 {
			return exit.Usage("--with is about a run that is not there yet: give --next or -f FILE, too")
		}
		return o.run(cmd.Context(), args)
	}
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	run, err := lookup.Run(ctx, store.Server, store.Namespace, args[0])
	if code, _ := exit.Of(err); code == exit.Missing && o.neverRan(ctx, store, args[0]) {
		return o.next(ctx, args)
	}
	if err != nil {
		return err
	}
	if o.datum != "" {
		return o.why(ctx, store, run, args[1])
	}
	stages, detailed := run.Status.Stages, len(args) == 2
	if detailed {
		stage, err := lookup.Stage(run, args[1])
		if err != nil {
			return err
		}
		stages = []v1alpha1.StageStatus{*stage}
	}
	view, err := store.Dataset(plans.ResultsDataset).At(ctx, "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found := []Explained{}
	for i := range stages {
		e, err := o.stage(ctx, view, run, &stages[i], detailed)
		if err != nil {
			return err
		}
		found = append(found, e)
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, found)
	}
	return o.print(run, found)
}

func (o *options) stage(ctx context.Context, view *data.View, run *v1alpha1.PipelineRun, s *v1alpha1.StageStatus, detailed bool) (Explained, error) {
	e := Explained{Stage: s.Name, Phase: s.Phase, Message: s.Message, Why: s.Why, Datums: s.Datums, Recipe: s.Recipe, Output: s.Output}
	if s.GPUSeconds != nil {
		e.GPUSeconds = s.GPUSeconds.AsApproximateFloat64()
	}
	if s.GPUIdleSeconds != nil {
		e.GPUIdleSeconds = s.GPUIdleSeconds.AsApproximateFloat64()
	}
	if view == nil {
		return e, nil
	}
	if id, err := digest.Parse(s.Recipe); err == nil && o.recipe {
		recipe, err := plans.ReadRecipe(ctx, view, id)
		if err == nil {
			e.Parts = recipe.Parts
			for name, value := range recipe.Detail {
				e.Parts[name] = value
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return e, err
		}
	}
	if !detailed {
		return e, nil
	}
	err := view.Walk(ctx, plans.DatumsPath(run.Name, s.Name), func(entry data.Entry) error {
		file, err := view.Open(ctx, path.Join(path.Dir(entry.Path), entry.Target, plans.RecordFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nobody used it for longer than results are kept
		}
		if err != nil {
			return err
		}
		text := make([]byte, file.Size())
		if _, err := file.ReadAt(text, 0); err != nil {
			return err
		}
		record, err := plans.DecodeRecord(text)
		if err == nil {
			e.Computed = append(e.Computed, *record)
		}
		return err
	})
	return e, err
}

func (o *options) print(run *v1alpha1.PipelineRun, found []Explained) error {
	streams := o.factory.Streams
	style := streams.OutStyle()
	out := fmt.Sprintf("%s  %s: %s\n", style.Paint(terminal.Bold, run.Name), style.Phase(string(run.Status.Phase), string(run.Status.Phase)), run.Status.Message)
	out += fmt.Sprintf("started by %s, identity %s\n", run.Spec.Cause, run.Spec.Identity)
	for _, in := range run.Spec.Inputs {
		out += fmt.Sprintf("read %s@%s at %.8s\n", in.Dataset, in.Branch, in.Commit)
	}
	for i := range found {
		e := &found[i]
		out += fmt.Sprintf("\n%s  %s: %s\n", style.Paint(terminal.Bold, e.Stage), style.Phase(string(e.Phase), string(e.Phase)), e.Message)
		if e.Why != "" {
			out += "  why: " + e.Why + "\n"
		}
		if e.Recipe != "" {
			out += "  recipe: " + e.Recipe + "\n"
		}
		if e.GPUSeconds > 0 {
			out += fmt.Sprintf("  GPUs held for %.0f s%s\n", e.GPUSeconds, idle(e.GPUIdleSeconds))
		}
		if e.Output != nil {
			out += fmt.Sprintf("  output: %s@%s at %.8s\n", e.Output.Dataset, e.Output.Branch, e.Output.Commit)
		}
		out += parts(e)
	}
	_, err := fmt.Fprint(streams.Out, out)
	return err
}

// idle is for how much of that they were idle, where they were.
func idle(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return fmt.Sprintf(", idle for %.0f s of it", seconds)
}
