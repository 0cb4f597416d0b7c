// Package down is the command `muster down`.
package down

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/instance"
)

type options struct {
	factory  *connection.Factory
	stopJobs bool
	system   bool
	timeout  time.Duration
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "down",
		GroupID: "machine",
		Short:   "Stop Muster; training goes on and is found again by the next up",
		Long: `Stops Muster: the controllers, the node and the control plane.

What is training goes on: every container belongs to a small process of its own
that does not need Muster, and the next "muster up" finds it again. To stop the
jobs as well, and free their GPUs, give --stop-jobs: they are suspended, and
"muster resume" continues them from their last checkpoint.`,
		Example: "  muster down\n  muster down --stop-jobs",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.system, "system", false, "stop the Muster of all users of the machine; as root")
	cmd.Flags().BoolVar(&o.stopJobs, "stop-jobs", false, "suspend every job first and wait until its GPUs are free")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	folder := o.factory.Home
	if o.system {
		folder = o.factory.SystemHome
	}
	dir, err := folder()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	home := instance.Home(dir)
	_, alive, err := home.Read()
	if err != nil {
		return err
	}
	say := o.factory.Streams.Err
	if kind, finding := o.factory.Kind(); !alive && finding == nil && kind == connection.Box {
		_, err = fmt.Fprintf(say, "muster: none is running in %s; that of this machine (%s) is stopped by an administrator\n", dir, o.factory.SocketPath())
		return err
	}
	if !alive {
		_, err = fmt.Fprintf(say, "muster: none is running in %s\n", dir)
		return err
	}
	running, err := o.jobs(ctx)
	if err != nil && o.stopJobs {
		return fmt.Errorf("looking for jobs to stop (without --stop-jobs Muster stops and they go on): %w", err)
	}
	if o.stopJobs {
		if err := o.suspend(ctx, running); err != nil {
			return err
		}
		running = nil
	}
	if _, err := home.Stop(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(say, "muster: stopped"+outlook(running))
	return err
}

// outlook describes the effect on jobs that have not ended; "" without such jobs.
func outlook(jobs []v1alpha1.TrainingJob) string {
	var train, wait int
	for i := range jobs {
		switch jobs[i].Status.Phase {
		case v1alpha1.JobStarting, v1alpha1.JobRunning:
			train++
		default:
			wait++
		}
	}
	words := ""
	if train > 0 {
		words = fmt.Sprintf("; %d job(s) go on training and are found again by the next \"muster up\"", train)
	}
	if wait > 0 {
		words += fmt.Sprintf("; %d job(s) that have not started wait for the next \"muster up\"", wait)
	}
	return words
}

// jobs returns the jobs that hold something.
func (o *options) jobs(ctx context.Context) ([]v1alpha1.TrainingJob, error) {
	api, err := o.factory.Client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var all v1alpha1.TrainingJobList
	if err := api.List(ctx, &all); err != nil {
		return nil, err
	}
	var held []v1alpha1.TrainingJob
	for _, job := range all.Items {
		switch job.Status.Phase {
		case v1alpha1.JobSucceeded, v1alpha1.JobFailed, v1alpha1.JobSuspended:
		default:
			held = append(held, job)
		}
	}
	return held, nil
}

// suspend suspends the jobs and waits until all of them hold nothing.
func (o *options) suspend(ctx context.Context, jobs []v1alpha1.TrainingJob) error {
	api, err := o.factory.Client()
	if err != nil {
		return err
	}
	for i := range jobs {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
		if err := api.Patch(ctx, &jobs[i], patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("suspending %s/%s: %w", jobs[i].Namespace, jobs[i].Name, err)
		}
		_, _ = fmt.Fprintf(o.factory.Streams.Err, "muster: suspending %s/%s\n", jobs[i].Namespace, jobs[i].Name)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := o.jobs(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s/%s and %d more have stopped: %w", left[0].Namespace, left[0].Name, len(left)-1, ctx.Err())
		case <-tick.C:
		}
	}
}
