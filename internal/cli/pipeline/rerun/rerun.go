// Package rerun is the command `muster pipeline rerun`.
package rerun

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/suggestion"
)

type options struct {
	factory *connection.Factory
	stages  []string
	all     bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "rerun RUN|PIPELINE",
		Short: "Run again what a run ran, with the same data",
		Long: `Starts a run with the stages and the data of another one, or of the last one of a
pipeline. Datums that failed are computed; those that have results are not, but
for the stages that are named by --stage, or all of them with --all.`,
		Example: `  muster pipeline rerun digits
  muster pipeline rerun digits --stage train`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := lookup.One(args, "a run, or a pipeline for its last one")
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), name)
		},
	}
	cmd.Flags().StringArrayVar(&o.stages, "stage", nil, "compute every datum of this stage again; repeatable")
	cmd.Flags().BoolVar(&o.all, "all", false, "compute every datum of every stage again")
	return cmd
}

func (o *options) run(ctx context.Context, name string) error {
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	before, err := lookup.Run(ctx, server, namespace, name)
	if err != nil {
		return err
	}
	var names []string
	for i := range before.Spec.Stages {
		names = append(names, before.Spec.Stages[i].Name)
	}
	if o.all {
		o.stages = names
	}
	for _, stage := range o.stages {
		if !slices.Contains(names, stage) {
			return exit.NotFound("run %s has no stage %s%s", before.Name, stage, suggestion.Phrase(stage, names))
		}
	}
	made := before.Spec.Pipeline + "-again-" + strings.ToLower(rand.Text()[:6])
	run := &v1alpha1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: made, Labels: before.Labels, OwnerReferences: before.OwnerReferences},
		Spec:       *before.Spec.DeepCopy(),
	}
	if who := person.Author(ctx, o.factory.Client); who != "" {
		run.Annotations = map[string]string{v1alpha1.AnnotationSubmitter: who}
	}
	run.Spec.Number++
	run.Spec.Identity, run.Spec.Cause, run.Spec.Recompute, run.Spec.Cancel = made, "run "+before.Name+" again", o.stages, false
	if err := server.Create(ctx, run); err != nil {
		return fmt.Errorf("starting run %s: %w", made, err)
	}
	_, err = fmt.Fprintf(o.factory.Streams.Out, "%s\n\n  muster pipeline wait %[1]s    until it has ended\n", made)
	return err
}
