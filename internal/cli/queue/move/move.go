// Package move is the command `muster queue move`: training jobs that wait are
// charged to another queue.
package move

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use:   "move JOB... --to QUEUE",
		Short: "Move training jobs that wait to another queue",
		Long: `Moves training jobs to another queue. A job moves only while it holds nothing:
one that runs is not moved; suspend it first, move it, and resume it. In its new
queue a job keeps its age.`,
		Example: "  muster queue move mnist --to vision",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return exit.Usage("move to which queue? Give --to QUEUE; `muster queue list` lists them")
			}
			server, namespace, err := f.Reach()
			if err != nil {
				return err
			}
			m := &mover{server: server, streams: f.Streams, namespace: namespace, to: to, patience: 5 * time.Second}
			return m.run(cmd.Context(), args)
		},
	}
	f.TakeJobs(cmd, "move which job?")
	cmd.Flags().StringVar(&to, "to", "", "the queue that they go to")
	_ = cmd.RegisterFlagCompletionFunc("to", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return survey.CompleteAny(cmd.Context(), f), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// mover moves jobs.
type mover struct {
	server        client.Client
	streams       terminal.Streams
	namespace, to string
	// patience is how long the controller is given to follow.
	patience time.Duration
}

func (m *mover) run(ctx context.Context, names []string) error {
	// 1. Nothing moves unless the queue is there, and all of the jobs can.
	var queues v1alpha1.QueueList
	if err := m.server.List(ctx, &queues); err != nil {
		return fmt.Errorf("listing the queues: %w", err)
	}
	if err := survey.Missing(m.to, queues.Items); err != nil {
		return err
	}
	jobs := make([]*v1alpha1.TrainingJob, len(names))
	for i, name := range names {
		job, err := member.Job(ctx, m.server, m.namespace, name)
		if err != nil {
			return err
		}
		if err := m.movable(job); err != nil {
			return err
		}
		jobs[i] = job
	}
	// 2. Move them.
	for _, job := range jobs {
		word, err := m.move(ctx, job)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(m.streams.Out, "%s %s queue %s\n", job.Name, word, m.to); err != nil {
			return err
		}
	}
	return nil
}

// movable is an error for a job that has ended or holds something.
func (m *mover) movable(job *v1alpha1.TrainingJob) error {
	switch phase := job.Status.Phase; phase {
	case v1alpha1.JobSucceeded, v1alpha1.JobFailed:
		return exit.With(exit.Failure, fmt.Errorf("%s has ended (%s): it is in no queue any more", job.Name, phase))
	case "", v1alpha1.JobPreparing, v1alpha1.JobWaiting, v1alpha1.JobSuspended:
		return nil
	}
	return exit.With(exit.Failure, fmt.Errorf("%s holds what it asked for (%s): only a job that waits moves; `muster suspend %s`, move it, then `muster resume %s`",
		job.Name, job.Status.Phase, job.Name, job.Name))
}

// move names the new queue in a job, and waits until what the scheduler sees of
// it follows.
func (m *mover) move(ctx context.Context, job *v1alpha1.TrainingJob) (string, error) {
	if cmp.Or(job.Spec.Queue, v1alpha1.DefaultQueue) == m.to {
		return "is already in", nil
	}
	before := job.DeepCopy()
	job.Spec.Queue = m.to
	if err := m.server.Patch(ctx, job, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("moving %s: %w", job.Name, err)
	}
	late := time.After(m.patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		gang := &v1alpha1.Gang{}
		err := m.server.Get(ctx, client.ObjectKeyFromObject(job), gang)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return "", fmt.Errorf("moving %s: %w", job.Name, err)
		case err != nil, cmp.Or(gang.Spec.Queue, v1alpha1.DefaultQueue) == m.to:
			return "moved to", nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-late:
			return "", exit.With(exit.Failure, fmt.Errorf("%s is starting or stopping just now, or Muster's controllers do not answer: it is still in queue %s, and moves to %s when it waits again",
				job.Name, cmp.Or(gang.Spec.Queue, v1alpha1.DefaultQueue), m.to))
		case <-tick.C:
		}
	}
}
