// Package hold is the commands `muster pipeline pause`, `resume` and `cancel`.
package hold

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
)

// Pause returns the command that keeps commits from starting runs.
func Pause(f *connection.Factory) *cobra.Command {
	return command(f, true, &cobra.Command{
		Use:     "pause PIPELINE...",
		Short:   "Keep commits from starting runs; what runs goes on",
		Example: `  muster pipeline pause digits`,
	})
}

// Resume returns the command that takes a pause back.
func Resume(f *connection.Factory) *cobra.Command {
	return command(f, false, &cobra.Command{
		Use:     "resume PIPELINE...",
		Short:   "Let commits start runs again, one for all that has changed meanwhile",
		Example: `  muster pipeline resume digits`,
	})
}

func command(f *connection.Factory, paused bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ArbitraryArgs, lookup.Complete(f, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usage("name a pipeline")
		}
		for _, name := range args {
			if err := set(cmd.Context(), f, name, paused); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func set(ctx context.Context, f *connection.Factory, name string, paused bool) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	p, err := lookup.Pipeline(ctx, server, namespace, name)
	if err != nil {
		return err
	}
	word := map[bool]string{true: "paused", false: "resumed"}[paused]
	if p.Spec.Paused == paused {
		_, err := fmt.Fprintf(f.Streams.Out, "pipeline %s: it was %s already\n", name, map[bool]string{true: "paused", false: "not paused"}[paused])
		return err
	}
	before := p.DeepCopy()
	p.Spec.Paused = paused
	if err := server.Patch(ctx, p, client.MergeFrom(before), client.FieldOwner(connection.FieldOwner)); err != nil {
		return fmt.Errorf("changing pipeline %s: %w", name, err)
	}
	_, err = fmt.Fprintf(f.Streams.Out, "pipeline %s %s\n", name, word)
	return err
}

// Cancel returns the command that ends a run.
func Cancel(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel RUN|PIPELINE",
		Short: "End a run, and all that it started; what was computed is kept",
		Long: `Ends a run, or the last one of a pipeline, with all runs that have its identity. What
was computed is kept as results: the next run takes it.`,
		Example:           `  muster pipeline cancel digits`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := lookup.One(args, "a run, or a pipeline for its last one")
			if err != nil {
				return err
			}
			return cancel(cmd.Context(), f, name)
		},
	}
}

func cancel(ctx context.Context, f *connection.Factory, name string) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	run, err := lookup.Run(ctx, server, namespace, name)
	if err != nil {
		return err
	}
	all, err := lookup.Identity(ctx, server, run)
	if err != nil {
		return err
	}
	ended := 0
	for i := range all {
		r := &all[i]
		if lookup.Ended(r.Status.Phase) {
			continue
		}
		before := r.DeepCopy()
		r.Spec.Cancel = true
		if err := server.Patch(ctx, r, client.MergeFrom(before), client.FieldOwner(connection.FieldOwner)); err != nil {
			return fmt.Errorf("cancelling run %s: %w", r.Name, err)
		}
		ended++
		if _, err := fmt.Fprintf(f.Streams.Out, "run %s is being ended\n", r.Name); err != nil {
			return err
		}
	}
	if ended == 0 {
		_, err = fmt.Fprintf(f.Streams.Out, "run %s has ended already: %s\n", run.Name, run.Status.Phase)
	}
	return err
}
