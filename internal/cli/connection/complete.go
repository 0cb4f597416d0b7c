package connection

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/kind"
)

// completionPatience is how long a shell waits for proposals.
const completionPatience = 2 * time.Second

// Propose fills a list from the server, for proposals, if that is possible
// while a shell waits.
func (f *Factory) Propose(ctx context.Context, list client.ObjectList, options ...client.ListOption) bool {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	reader, err := f.Client()
	return err == nil && reader.List(ctx, list, options...) == nil
}

// CompleteJobs lists the names of the training jobs that are not among args:
// proposals for the shell. Errors propose nothing.
func (f *Factory) CompleteJobs(ctx context.Context, args []string) []string {
	namespace, err := f.Namespace()
	if err != nil {
		return nil
	}
	var jobs v1alpha1.TrainingJobList
	if !f.Propose(ctx, &jobs, client.InNamespace(namespace)) {
		return nil
	}
	taken := map[string]bool{}
	for _, arg := range args {
		taken[arg] = true
	}
	var names []string
	for i := range jobs.Items {
		if name := jobs.Items[i].Name; !taken[name] {
			names = append(names, name+"\t"+string(jobs.Items[i].Status.Phase))
		}
	}
	return names
}

// CompleteObjects proposes kinds and training jobs for the first of a
// command's arguments, and training jobs for the later ones.
func (f *Factory) CompleteObjects(ctx context.Context, args []string) []string {
	names := f.CompleteJobs(ctx, args)
	if len(args) == 0 {
		names = append(names, "trainingjobs", "datasets", "gangs", "placements", "pods", "nodes", "events", "services", "persistentvolumeclaims")
	}
	return names
}

// TakeJobs makes the names of training jobs, at least one, the arguments of
// cmd. Without any the question is the error, as in "suspend which job?".
func (f *Factory) TakeJobs(cmd *cobra.Command, question string) {
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usage("%s Give its name; `muster get` lists them", question)
		}
		for i := range args {
			args[i] = kind.Job(args[i])
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.CompleteJobs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
}
