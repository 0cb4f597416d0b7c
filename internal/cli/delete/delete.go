// Package delete is the command `muster delete`: deletes objects of any kind and waits
// until they are gone, of training jobs until nothing of them is left.
package delete

import (
	"context"
	"fmt"
	"time"

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
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/removal"
)

type options struct {
	factory  *connection.Factory
	format   *output.Format
	files    []string
	all      bool
	selector string
	noWait   bool
	ignore   bool
	// timeout bounds the wait; 0: as long as it takes.
	timeout time.Duration
	// every is the pause between two looks for a manager; 0: [idleEvery].
	every time.Duration
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	return o.command()
}

func (o *options) command() *cobra.Command {
	cmd := &cobra.Command{
		SuggestFor: []string{"cancel", "kill", "stop"},
		Use:        "delete JOB...|KIND NAME...|KIND/NAME...|-f FILE",
		Aliases:    []string{"rm"},
		Short:      "Delete training jobs and release their resources, or delete objects of any kind",
		Long: `Deletes training jobs, stops their processes, and returns once nothing of them
is left, so that their GPUs are free. Their logs and the checkpoints of claims
made for them go with them; checkpoints in a claim of your own stay. A TFJob or
PyTorchJob is a training job here. If no manager of Muster runs on the cluster,
or the time of --timeout is over, the command says what is left and ends with exit
code 1; the deletion stands.

Objects of any other kind are deleted with their dependents; kinds may be
written short and several at once, as for muster get. With -f the objects of a
manifest are deleted; one that does not exist is no error.`,
		Example: `  muster delete mnist
  muster delete --all
  muster delete deployment/web pod/debug
  muster delete configmaps -l app=web
  muster delete -f job.yaml`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return o.factory.CompleteObjects(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(args); err != nil {
				return err
			}
			return o.run(cmd.Context(), args)
		},
	}
	o.format = output.Flag(cmd, output.Name)
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of manifests whose objects are deleted, - for standard input; repeatable")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().BoolVar(&o.all, "all", false, "all training jobs of the namespace, or all objects of the kinds")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "those with these labels: key=value")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return at once; they end all the same")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long to wait until they are gone (default: as long as it takes)")
	cmd.Flags().BoolVar(&o.ignore, "ignore-not-found", false, "an object that does not exist is no error")
	return cmd
}

func (o *options) validate(args []string) error {
	switch {
	case len(o.files) > 0 && (len(args) > 0 || o.all || o.selector != ""):
		return exit.Usage("-f names the objects to delete: leave names, --all and --selector out")
	case len(args) == 0 && len(o.files) == 0 && !o.all && o.selector == "":
		return exit.Usage("delete which job? Give names, or --all; `muster get` lists them")
	case len(args) > 1 && (o.all || o.selector != ""):
		return exit.Usage("names, --all and --selector do not go together: give one")
	case o.all && o.selector != "":
		return exit.Usage("--all and --selector do not go together: give one")
	case o.timeout < 0:
		return exit.Usage("--timeout %s: give a duration, such as 2m; leave it out to wait as long as it takes", o.timeout)
	case o.timeout > 0 && o.noWait:
		return exit.Usage("--timeout and --no-wait do not go together: give one")
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return exit.Usage("--selector %s: give labels such as key=value", o.selector)
	}
	return o.format.Validate(output.Name)
}

func (o *options) run(ctx context.Context, args []string) error {
	server, namespace, err := o.factory.Reach()
	if err != nil {
		return err
	}
	wanted, err := o.wanted(args, namespace)
	if err != nil {
		return err
	}
	// 1. Everything is found before anything is deleted, so that a misspelt name
	// deletes nothing.
	jobs, others, err := o.find(ctx, server, wanted)
	if err != nil {
		return err
	}
	if len(jobs)+len(others) == 0 {
		_, err := fmt.Fprintf(o.factory.Streams.Err, "There is nothing to delete%s.\n", wanted.where(namespace))
		return err
	}
	// 2. The server is asked to delete all of it.
	if err := ask(ctx, server, jobs); err != nil {
		return err
	}
	if err := o.drop(ctx, others); err != nil {
		return err
	}
	if o.noWait {
		return o.report(jobs, others, "deleting")
	}
	// 3. It is gone before the command returns.
	if err := o.wait(ctx, server, jobs, others); err != nil {
		return err
	}
	return o.report(jobs, others, "deleted")
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

// title is the heading of the progress.
func title(jobs []*v1alpha1.TrainingJob, others []other) string {
	switch {
	case len(jobs) == 1 && len(others) == 0:
		return "Deleting " + jobs[0].Name
	case len(others) == 0:
		return fmt.Sprintf("Deleting %d jobs", len(jobs))
	case len(jobs)+len(others) == 1:
		return "Deleting " + others[0].reference()
	}
	return fmt.Sprintf("Deleting %d objects", len(jobs)+len(others))
}

// byNamespace sorts jobs by their namespaces.
func byNamespace(jobs []*v1alpha1.TrainingJob) map[string][]*v1alpha1.TrainingJob {
	of := map[string][]*v1alpha1.TrainingJob{}
	for _, job := range jobs {
		of[job.Namespace] = append(of[job.Namespace], job)
	}
	return of
}

func (o *options) report(jobs []*v1alpha1.TrainingJob, others []other, word string) error {
	for _, job := range jobs {
		line := job.Name + " " + word
		if *o.format == output.Name {
			line = output.Reference(v1alpha1.GroupVersion.WithKind("TrainingJob").GroupKind(), job.Name)
		}
		if _, err := fmt.Fprintln(o.factory.Streams.Out, line); err != nil {
			return err
		}
	}
	for _, one := range others {
		line := one.reference() + " " + word
		if *o.format == output.Name {
			line = one.reference()
		}
		if _, err := fmt.Fprintln(o.factory.Streams.Out, line); err != nil {
			return err
		}
	}
	return nil
}
