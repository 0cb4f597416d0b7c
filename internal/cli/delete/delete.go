// Package delete is the command `muster delete`: ends training jobs and waits
// until nothing of them is left.
package delete

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/removal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

type options struct {
	factory  *connection.Factory
	format   *output.Format
	all      bool
	selector string
	noWait   bool
	ignore   bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		SuggestFor: []string{"cancel", "kill", "stop"},
		Use:        "delete JOB...",
		Aliases:    []string{"rm"},
		Short:      "Delete training jobs and free what they hold",
		Long: `Deletes training jobs, stops their processes, and returns once nothing of them
is left, so that their GPUs are free. Their logs and the checkpoints of claims
made for them go with them; checkpoints in a claim of your own stay.`,
		Example: "  muster delete mnist\n  muster delete --all",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.CompleteJobs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(args); err != nil {
				return err
			}
			return o.run(cmd.Context(), args)
		},
	}
	o.format = output.Flag(cmd, output.Name)
	cmd.Flags().BoolVar(&o.all, "all", false, "all training jobs of the namespace")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "those with these labels: key=value")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return at once; they end all the same")
	cmd.Flags().BoolVar(&o.ignore, "ignore-not-found", false, "a job that does not exist is no error")
	return cmd
}

func (o *options) validate(args []string) error {
	switch {
	case len(args) == 0 && !o.all && o.selector == "":
		return exit.Usage("delete which job? Give names, or --all; `muster get` lists them")
	case len(args) > 0 && (o.all || o.selector != ""):
		return exit.Usage("names, --all and --selector do not go together: give one")
	}
	for i, arg := range args {
		if args[i] = kind.Job(arg); strings.Contains(args[i], "/") {
			return exit.Usage("%s: muster delete deletes training jobs; for other kinds use kubectl delete", arg)
		}
	}
	return o.format.Validate(output.Name)
}

func (o *options) run(ctx context.Context, names []string) error {
	server, err := o.factory.Client()
	if err != nil {
		return err
	}
	namespace, err := o.factory.Namespace()
	if err != nil {
		return err
	}
	jobs, err := o.find(ctx, server, namespace, names)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		_, err := fmt.Fprintf(o.factory.Streams.Err, "There are no training jobs to delete in namespace %s.\n", namespace)
		return err
	}
	if err := ask(ctx, server, jobs); err != nil {
		return err
	}
	if o.noWait {
		return o.report(jobs, "deleting")
	}
	if err := o.wait(ctx, server, jobs); err != nil {
		return err
	}
	return o.report(jobs, "deleted")
}

// find reads the jobs before any is deleted, so that a misspelt name deletes
// none.
func (o *options) find(ctx context.Context, server client.Client, namespace string, names []string) ([]*v1alpha1.TrainingJob, error) {
	var jobs []*v1alpha1.TrainingJob
	if len(names) == 0 {
		list := &v1alpha1.TrainingJobList{}
		selector, err := labels.Parse(o.selector)
		if err != nil {
			return nil, exit.Usage("--selector %s: give labels such as key=value", o.selector)
		}
		if err := server.List(ctx, list, &client.ListOptions{Namespace: namespace, LabelSelector: selector}); err != nil {
			return nil, fmt.Errorf("listing the training jobs: %w", err)
		}
		for i := range list.Items {
			jobs = append(jobs, &list.Items[i])
		}
		return jobs, nil
	}
	for _, name := range names {
		job, err := member.Job(ctx, server, namespace, name)
		if err != nil {
			if foreign := member.Foreign(ctx, server, namespace, name); foreign != nil {
				jobs = append(jobs, unmade(foreign))
				continue
			}
		}
		if code, _ := exit.Of(err); code == exit.Missing && o.ignore {
			continue
		}
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// atOnce is how many jobs are asked to end at a time.
const atOnce = 16

// ask asks for the end of each job.
func ask(ctx context.Context, server client.Client, jobs []*v1alpha1.TrainingJob) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, job := range jobs {
		group.Go(func() error {
			err := removal.Delete(ctx, server, job)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// unmade stands for the training job that was not made of a TFJob or
// PyTorchJob, so that what is deleted is that.
func unmade(foreign *unstructured.Unstructured) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: foreign.GetNamespace(), Name: foreign.GetName(),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foreign, foreign.GroupVersionKind())},
	}}
}

// wait returns once nothing of any job is left.
func (o *options) wait(ctx context.Context, server client.Client, jobs []*v1alpha1.TrainingJob) error {
	title := "Deleting " + jobs[0].Name
	if len(jobs) > 1 {
		title = fmt.Sprintf("Deleting %d jobs", len(jobs))
	}
	progress := terminal.NewProgress(o.factory.Streams.Err, title, terminal.Things)
	defer progress.Stop()
	err := removal.WaitAll(ctx, server, jobs, func(gone int, first string, left removal.Left) {
		if len(jobs) > 1 {
			progress.Set(int64(gone), int64(len(jobs)))
		}
		if first != "" {
			progress.Say(first + ": " + left.String())
		}
	})
	if errors.Is(err, context.Canceled) {
		progress.Stop()
		_, _ = fmt.Fprintln(o.factory.Streams.Err, "Not waiting any longer; what was asked to end ends all the same.")
	}
	return err
}

func (o *options) report(jobs []*v1alpha1.TrainingJob, word string) error {
	for _, job := range jobs {
		line := job.Name + " " + word
		if *o.format == output.Name {
			line = output.Reference(v1alpha1.GroupVersion.WithKind("TrainingJob").GroupKind(), job.Name)
		}
		if _, err := fmt.Fprintln(o.factory.Streams.Out, line); err != nil {
			return err
		}
	}
	return nil
}
