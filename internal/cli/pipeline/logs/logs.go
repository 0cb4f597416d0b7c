// Package logs is the command `muster pipeline logs`.
package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
	datum   string
	failed  bool
}

// Logged is one datum, as -o json prints it.
type Logged struct {
	Stage string `json:"stage"`
	plans.Record
	Log string `json:"log"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "logs RUN|PIPELINE [STAGE]",
		Short: "Print what the datums of a run wrote, also of those that failed",
		Long: `Prints what programs wrote for the datums that a run computed. Logs are kept as data,
with the results, for as long as these: also once pods and jobs are gone.

A datum that was not computed in this run has its log in the run that did: it is
printed if it is named by --datum. While a stage is on its way, what it has
recorded so far is printed; muster logs JOB shows its members.`,
		Example: `  muster pipeline logs digits
  muster pipeline logs digits train
  muster pipeline logs digits-1a2b3c4d prepare --datum 7.png
  muster pipeline logs digits --failed`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, true),
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().StringVar(&o.datum, "datum", "", "of this datum alone")
	cmd.Flags().BoolVar(&o.failed, "failed", false, "of those alone that failed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		switch len(args) {
		case 0:
			return exit.Usage("name a run, or a pipeline for its last one")
		case 1, 2:
		default:
			return exit.Usage("a run and a stage at most: what is %q?", args[2])
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
	if err != nil {
		return err
	}
	stages := run.Status.Stages
	if len(args) == 2 {
		stage, err := lookup.Stage(run, args[1])
		if err != nil {
			return err
		}
		stages = []v1alpha1.StageStatus{*stage}
	}
	view, err := store.Dataset(plans.ResultsDataset).At(ctx, "")
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("run %s has computed nothing yet", run.Name)
	}
	if err != nil {
		return err
	}
	if *o.format != output.Human {
		found := []Logged{}
		err := o.each(ctx, store, view, run, stages, func(l *Logged) error {
			found = append(found, *l)
			return nil
		})
		if err != nil {
			return err
		}
		return output.Print(o.factory.Streams.Out, *o.format, found)
	}
	n := 0
	err = o.each(ctx, store, view, run, stages, func(l *Logged) error {
		n++
		return o.print(l)
	})
	if err != nil || n > 0 {
		return err
	}
	return o.none(run, stages)
}

// each calls see for each datum that is asked for. Together their logs may not fit in memory.
func (o *options) each(ctx context.Context, store *opening.Store, view *data.View, run *v1alpha1.PipelineRun, stages []v1alpha1.StageStatus, see func(*Logged) error) error {
	for i := range stages {
		if err := o.stage(ctx, store, view, run, stages[i].Name, see); err != nil {
			return err
		}
	}
	return nil
}

// stage shows the datums that a stage of the run computed.
func (o *options) stage(ctx context.Context, store *opening.Store, view *data.View, run *v1alpha1.PipelineRun, stage string, see func(*Logged) error) error {
	if o.datum != "" {
		return o.one(ctx, store, view, run, stage, see)
	}
	var folders []string
	err := view.Walk(ctx, plans.DatumsPath(run.Name, stage), func(e data.Entry) error {
		folders = append(folders, path.Join(path.Dir(e.Path), e.Target))
		return nil
	})
	if err != nil {
		return err
	}
	for _, folder := range folders {
		logged, err := read(ctx, view, stage, folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its result was older than the retention time
		}
		if err == nil && (!o.failed || logged.Error != "") {
			err = see(&logged)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one shows one datum, by the run itself or else by the last one that computed it.
func (o *options) one(ctx context.Context, store *opening.Store, view *data.View, run *v1alpha1.PipelineRun, stage string, see func(*Logged) error) error {
	all, err := lookup.Runs(ctx, store.Server, store.Namespace, run.Spec.Pipeline)
	if err != nil {
		return err
	}
	names := []string{run.Name}
	for i := len(all) - 1; i >= 0; i-- {
		if plans.Order(&all[i], run) < 0 {
			names = append(names, all[i].Name)
		}
	}
	for _, name := range names {
		e, err := view.Stat(ctx, plans.DatumPath(name, stage, o.datum))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		logged, err := read(ctx, view, stage, path.Join(path.Dir(e.Path), e.Target))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		return see(&logged)
	}
	return nil
}

// read is what is kept of a datum in a folder of the dataset of results.
func read(ctx context.Context, view *data.View, stage, folder string) (Logged, error) {
	text, err := content(ctx, view, folder+"/"+plans.RecordFile)
	if err != nil {
		return Logged{}, err
	}
	record, err := plans.DecodeRecord(text)
	if err != nil {
		return Logged{}, err
	}
	log, err := content(ctx, view, folder+"/"+plans.LogFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Logged{}, err
	}
	return Logged{Stage: stage, Record: *record, Log: string(log)}, nil
}

func content(ctx context.Context, view *data.View, path string) (text []byte, err error) {
	file, err := view.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(file)
}

// none returns the reason why no datum was shown.
func (o *options) none(run *v1alpha1.PipelineRun, stages []v1alpha1.StageStatus) error {
	if o.datum != "" {
		return exit.NotFound("no run of pipeline %s has computed a datum %q: muster pipeline logs %s lists those of this one", run.Spec.Pipeline, o.datum, run.Name)
	}
	text := fmt.Sprintf("run %s has computed no such datum: %s\n", run.Name, run.Status.Message)
	for i := range stages {
		if s := &stages[i]; s.Phase == v1alpha1.RunRunning && s.Job != "" {
			text += fmt.Sprintf("stage %s runs now: muster logs %s shows its members\n", s.Name, s.Job)
		}
	}
	_, err := io.WriteString(o.factory.Streams.Err, text)
	return err
}

// print prints one datum.
func (o *options) print(l *Logged) error {
	streams := o.factory.Streams
	style, data := streams.OutStyle(), terminal.Data(streams.Out)
	state := fmt.Sprintf("exit code %d, %.2f s", l.Exit, l.Seconds)
	if l.Error != "" {
		state = style.Paint(terminal.Red, l.Error)
	}
	if _, err := fmt.Fprintf(streams.Out, "%s  %s\n", style.Paint(terminal.Bold, l.Stage+": "+l.Datum), state); err != nil {
		return err
	}
	if _, err := io.WriteString(data, l.Log); err != nil {
		return err
	}
	if l.Log != "" && !strings.HasSuffix(l.Log, "\n") {
		if _, err := fmt.Fprintln(streams.Out); err != nil {
			return err
		}
	}
	return nil
}
