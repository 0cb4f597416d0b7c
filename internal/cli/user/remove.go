package user

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/question"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/gateway/registry"
	"github.com/muster-dev/muster/internal/tenant"
)

type removing struct {
	factory    *connection.Factory
	force, yes bool
	wait       time.Duration
}

func newRemove(f *connection.Factory) *cobra.Command {
	o := &removing{factory: f}
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm", "delete"},
		Short:   "Take a user's rights, and remove their namespace with everything in it",
		Long: `Takes the user's rights, which ends their kubeconfig at once, and removes their
namespace with all jobs, checkpoints and data in it, and their access keys. Their queue goes too if it
was made for them and nobody else uses it.

Refused while jobs of theirs run, unless --force is given, which ends them.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := one("remove", args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), name)
		},
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "although jobs of theirs run")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().DurationVar(&o.wait, "timeout", 5*time.Minute, "for how long the end of everything in the namespace is waited for")
	return cmd
}

func (o *removing) run(ctx context.Context, name string) error {
	server, err := o.factory.Client()
	if err != nil {
		return err
	}
	user, err := tenant.Find(ctx, server, name)
	if err != nil {
		return err
	}
	if user == nil {
		return notFound(name)
	}
	if user.Running > 0 && !o.force {
		return exit.With(exit.Failure, fmt.Errorf("%s of %s run: wait for them, stop them (muster -n %[2]s get), or give --force to end them", terminal.Count(int64(user.Running), "job"), name))
	}
	streams := o.factory.Streams
	if !o.yes {
		words := fmt.Sprintf("Remove %s, with namespace %[1]s, %s and all data in it?", name, terminal.Count(int64(user.Running+user.Waiting), "job"))
		if err := question.Confirm(ctx, streams, words, name+" was not removed"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	progress := terminal.NewProgress(streams.Err, "Removing "+name, terminal.Things)
	gone, err := tenant.Remove(ctx, server, *user)
	progress.Stop()
	if err != nil {
		return err
	}
	// The keys ended with the namespace. Sweep removes their entries.
	vault := &registry.Vault{Client: server, Namespace: v1alpha1.SystemNamespace}
	if err := vault.Sweep(ctx); err != nil {
		_, _ = fmt.Fprintf(streams.Err, "access keys of %s no longer work, and their entries are not removed yet: %v\n", name, err)
	}
	queue := "queue " + user.Queue + " stays"
	if gone {
		queue = "with queue " + user.Queue
	}
	_, err = fmt.Fprintf(streams.Out, "%s is removed; %s\n", name, queue)
	return err
}
