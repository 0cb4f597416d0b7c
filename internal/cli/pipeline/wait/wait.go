// Package wait is the command `muster pipeline wait`.
package wait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

type options struct {
	factory *connection.Factory
	timeout time.Duration
	commit  string
	// said maps a run and its stage to the last reason for waiting that was printed.
	said map[string]string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "wait RUN|PIPELINE",
		Short: "Wait until a run, and all that it started, has ended",
		Long: `Waits until a run and all runs with its identity, those of pipelines that read what
it made, have ended. For a pipeline it waits until nothing of it is on its way and
every commit up to now has had its run. Ends with exit code 0 if all succeeded.`,
		Example: `  muster pipeline wait digits
  muster pipeline wait digits-1a2b3c4d --timeout 10m`,
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
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "give up after so long: 90s, 10m (default: never)")
	cmd.Flags().StringVar(&o.commit, "commit", "", "of a pipeline: wait for a run that reads this commit, or the first digits of one")
	return cmd
}

var errTimeout = errors.New("it has not ended yet")

func (o *options) run(ctx context.Context, name string) error {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, errTimeout)
		defer cancel()
	}
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	// Watched before it is read, so that nothing is missed.
	runs, err := server.Watch(ctx, &v1alpha1.PipelineRunList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching runs: %w", err)
	}
	defer runs.Stop()
	pipelines, err := server.Watch(ctx, &v1alpha1.PipelineList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching pipelines: %w", err)
	}
	defer pipelines.Stop()
	for {
		over, err := o.look(ctx, server, namespace, name)
		if err != nil || over {
			return err
		}
		if err := next(ctx, runs, pipelines); err != nil {
			if errors.Is(context.Cause(ctx), errTimeout) {
				return exit.With(exit.Failure, fmt.Errorf("%s: after %s %w; muster pipeline runs shows how it stands", name, o.timeout, errTimeout))
			}
			return err
		}
	}
}

// next waits for an event.
func next(ctx context.Context, a, b watch.Interface) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case _, ok := <-a.ResultChan():
		if !ok && ctx.Err() == nil {
			return errors.New("the server closed the watch: try again")
		}
	case _, ok := <-b.ResultChan():
		if !ok && ctx.Err() == nil {
			return errors.New("the server closed the watch: try again")
		}
	}
	return ctx.Err()
}

// look says whether it is over, and how it ended.
func (o *options) look(ctx context.Context, server client.Client, namespace, name string) (bool, error) {
	p := &v1alpha1.Pipeline{}
	isPipeline := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p) == nil
	if isPipeline {
		if settled, err := o.settled(ctx, server, p); !settled || err != nil {
			return false, err
		}
	}
	run, err := lookup.Run(ctx, server, namespace, name)
	if err != nil {
		return false, err
	}
	all, err := lookup.Identity(ctx, server, run)
	if err != nil {
		return false, err
	}
	for i := range all {
		if !lookup.Ended(all[i].Status.Phase) {
			return false, o.say(all)
		}
	}
	for i := range all {
		r := &all[i]
		if isPipeline && r.Spec.Pipeline == name && r.Name != run.Name {
			continue // an earlier one of the same identity
		}
		if r.Status.Phase != v1alpha1.RunSucceeded {
			return true, exit.With(exit.Failure, fmt.Errorf("run %s %s: %s", r.Name, words(r.Status.Phase), r.Status.Message))
		}
	}
	style := o.factory.Streams.OutStyle()
	_, err = fmt.Fprintf(o.factory.Streams.Out, "%s: %s\n", style.Paint(terminal.Bold, run.Name), run.Status.Message)
	return true, err
}

// say prints why stages wait before they can be planned: for an image, code, packages. It prints
// each reason once.
func (o *options) say(runs []v1alpha1.PipelineRun) error {
	if o.said == nil {
		o.said = map[string]string{}
	}
	for i := range runs {
		for k := range runs[i].Status.Stages {
			stage := &runs[i].Status.Stages[k]
			key := runs[i].Name + " " + stage.Name
			if stage.Phase != v1alpha1.RunPlanning || stage.Message == "" || o.said[key] == stage.Message {
				continue
			}
			o.said[key] = stage.Message
			if _, err := fmt.Fprintf(o.factory.Streams.Err, "run %s, stage %s waits: %s\n", runs[i].Name, stage.Name, stage.Message); err != nil {
				return err
			}
		}
	}
	return nil
}

func words(phase v1alpha1.RunPhase) string {
	if phase == v1alpha1.RunCancelled {
		return "was cancelled"
	}
	return "failed"
}

// settled says whether every commit up to now has had its run.
func (o *options) settled(ctx context.Context, server client.Client, p *v1alpha1.Pipeline) (bool, error) {
	switch {
	case p.Status.Phase == v1alpha1.PipelineInvalid:
		return false, exit.With(exit.Failure, fmt.Errorf("pipeline %s cannot run: %s", p.Name, p.Status.Message))
	case p.Status.ObservedGeneration != p.Generation || p.Status.LastRun == "" || p.Status.Phase == v1alpha1.PipelineRunning:
		return false, nil
	case p.Spec.Paused:
		return true, nil
	}
	found := o.commit == ""
	for _, in := range p.Status.Seen {
		if o.commit != "" {
			found = found || len(in.Commit) >= len(o.commit) && in.Commit[:len(o.commit)] == o.commit
			continue
		}
		// Read past what the controller has seen: a commit may have come since.
		d := &v1alpha1.Dataset{}
		if err := server.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: in.Dataset}, d); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading dataset %s: %w", in.Dataset, err)
		}
		for _, b := range d.Spec.Branches {
			if b.Name == in.Branch && string(b.Commit) != in.Commit && !silent(p, in) {
				return false, nil
			}
		}
	}
	return found, nil
}

// silent says that commits on a branch start nothing.
func silent(p *v1alpha1.Pipeline, in v1alpha1.RunInput) bool {
	loud := false
	see := func(s *v1alpha1.InputSource) {
		if s.Dataset == in.Dataset && !s.Silent {
			loud = true
		}
	}
	for i := range p.Spec.Stages {
		input := &p.Spec.Stages[i].Input
		see(&input.InputSource)
		for _, parts := range [][]v1alpha1.InputPart{input.Cross, input.Join, input.Group, input.Union} {
			for k := range parts {
				see(&parts[k].InputSource)
				for _, leaves := range [][]v1alpha1.InputLeaf{parts[k].Cross, parts[k].Join, parts[k].Group, parts[k].Union} {
					for n := range leaves {
						see(&leaves[n].InputSource)
					}
				}
			}
		}
	}
	return !loud
}
