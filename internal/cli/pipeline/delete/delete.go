// Package delete is the command `muster pipeline delete`.
package delete

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/question"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "delete RUN|PIPELINE...",
		Short: "Delete a run with all that it made, or a pipeline",
		Long: `Deletes a run, with everything that has its identity: the runs that it started, their
jobs, and the commits that they made, where their branches are still at them:
these go back to the commit before. Results stay, so that the same is not computed
again.

Of a pipeline its runs and jobs are deleted, too. Its datasets stay.

It asks before it deletes; --yes skips the question.`,
		Example: `  muster pipeline delete digits-1a2b3c4d
  muster pipeline delete digits`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usage("name a run or a pipeline")
			}
			if !yes {
				ask := "Delete " + strings.Join(args, ", ") + ": a pipeline with its runs and jobs, a run with the commits that it made?"
				if err := question.Confirm(cmd.Context(), f.Streams, ask, "nothing was deleted"); err != nil {
					return err
				}
			}
			for _, name := range args {
				if err := run(cmd.Context(), f, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "delete without a question")
	return cmd
}

func run(ctx context.Context, f *connection.Factory, name string) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	p := &v1alpha1.Pipeline{}
	err = server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
	if err == nil {
		if err := server.Delete(ctx, p); err != nil {
			return fmt.Errorf("deleting pipeline %s: %w", name, err)
		}
		_, err = fmt.Fprintf(f.Streams.Out, "pipeline %s deleted; its datasets stay\n", name)
		return err
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading pipeline %s: %w", name, err)
	}
	one, err := lookup.Run(ctx, server, namespace, name)
	if err != nil {
		return err
	}
	all, err := lookup.Identity(ctx, server, one)
	if err != nil {
		return err
	}
	store, err := opening.OpenStore(ctx, f)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	// Those that were started last first: they read what the others made.
	for i := len(all) - 1; i >= 0; i-- {
		if err := remove(ctx, f, store, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes one run. It is deleted first, so that it commits nothing more.
func remove(ctx context.Context, f *connection.Factory, store *opening.Store, r *v1alpha1.PipelineRun) error {
	if err := client.IgnoreNotFound(store.Server.Delete(ctx, r)); err != nil {
		return fmt.Errorf("deleting run %s: %w", r.Name, err)
	}
	for i := range r.Status.Stages {
		if out := r.Status.Stages[i].Output; out != nil && out.Commit != "" {
			said, err := back(ctx, store, r, out)
			if err != nil {
				return fmt.Errorf("run %s: stage %s: %w", r.Name, r.Status.Stages[i].Name, err)
			}
			if said != "" {
				if _, err := fmt.Fprintln(f.Streams.Out, said); err != nil {
					return err
				}
			}
		}
	}
	_, err := fmt.Fprintf(f.Streams.Out, "run %s deleted\n", r.Name)
	return err
}

// back moves an output's branch back, if it is still at the commit that the run
// made; one that the run merely took again is not its own.
func back(ctx context.Context, store *opening.Store, r *v1alpha1.PipelineRun, out *v1alpha1.RunInput) (string, error) {
	d := store.Dataset(out.Dataset)
	name := ref.Name{Kind: ref.Branch, Name: string(out.Branch)}
	at, err := d.Heads.Get(ctx, name)
	_, missing := errors.AsType[*dataset.MissingError](err)
	switch {
	case missing, errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case at.String() != out.Commit:
		return "", nil
	}
	made, err := d.Resolve(ctx, out.Commit)
	if err != nil {
		return "", err
	}
	if !madeBy(made.Message, r.Spec.Identity) {
		return "", nil
	}
	if len(made.Parents) == 0 {
		return fmt.Sprintf("%s@%s removed: the run made its only commit", out.Dataset, out.Branch), d.Remove(ctx, name)
	}
	return fmt.Sprintf("%s@%s is back at %s", out.Dataset, out.Branch, made.Parents[0].Short()), d.Reset(ctx, string(out.Branch), made.Parents[0].String())
}
