// Package uninstall is the command `muster uninstall`: takes Muster from a
// cluster, and says what it leaves.
package uninstall

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/question"
	"github.com/muster-dev/muster/internal/cli/service"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/installation"
)

type options struct {
	factory *connection.Factory

	purge, yes, dryRun, force bool
	// system removes the service of this machine instead.
	system bool
	wait   time.Duration
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take Muster from a Kubernetes cluster",
		Long: `Removes the manager, its rights and the policies. Kinds, jobs and queues stay, and
so do the pods of jobs that run; a later muster install goes on with them. While
pods have GPUs or volumes of the agent, the agent stays, too: they cannot end
without it. A later muster uninstall removes it.

With --purge everything goes: first every job, which ends what runs, then the
queues, the kinds and the namespace muster-system. Users' namespaces stay, and
so does what is not Muster's, whatever its name.

With --system, it removes the service of this machine that muster install
--system made. Jobs and the data folder stay.`,
		Example: `  muster uninstall
  muster uninstall --purge --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.system && (o.purge || o.force):
				return exit.Usage("--purge and --force are for a cluster: leave them out with --system")
			case o.system:
				return service.Remove(cmd.Context(), o.factory.Streams, o.dryRun)
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.system, "system", false, "remove the service of this machine, in place of Muster on a cluster")
	flags.BoolVar(&o.purge, "purge", false, "kinds, jobs and queues, too; ends everything that runs")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would be removed, and change nothing")
	flags.BoolVar(&o.force, "force", false, "remove the agent although pods cannot end without it: they stay in Terminating until it is back")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&o.wait, "timeout", 5*time.Minute, "for how long the end of jobs is waited for")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	config, err := o.factory.RESTConfig()
	if err != nil {
		return err
	}
	cluster, err := installation.Connect(config)
	if err != nil {
		return err
	}
	r, err := cluster.Survey(ctx, o.purge, o.force)
	if err != nil {
		return err
	}
	if len(r.Refusals) > 0 {
		return &installation.Refusal{Reasons: r.Refusals}
	}
	if r.Empty() {
		return exit.NotFound("this cluster has no objects that muster install made and that can be removed%s", leaves(r))
	}
	if o.dryRun {
		return o.foretell(r)
	}
	if err := o.confirm(ctx, r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(o.factory.Streams.Err, format+"\n", args...) }
	say("%s", effect(r))
	if err := cluster.Remove(ctx, r, say); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.factory.Streams.Out, "Muster is removed%s\n", leaves(r))
	return err
}

// effect is a sentence about the consequences of a removal.
func effect(r installation.Removal) string {
	if len(r.Kinds) > 0 {
		return "removing Muster with all jobs, queues and kinds"
	}
	return fmt.Sprintf("removing %d objects of Muster; until it is installed again no job starts, and jobs that are deleted do not end", len(r.Objects))
}

// leaves says what stays.
func leaves(r installation.Removal) string {
	if len(r.Leaves) == 0 {
		return ""
	}
	return "; what stays:\n  - " + strings.Join(r.Leaves, "\n  - ")
}

func (o *options) foretell(r installation.Removal) error {
	out := o.factory.Streams.Out
	for _, object := range r.Objects {
		_, _ = fmt.Fprintln(out, installation.Title(object))
	}
	for _, kind := range r.Kinds {
		_, _ = fmt.Fprintf(out, "kind %s\n", kind.GetName())
	}
	if r.Namespace != nil {
		_, _ = fmt.Fprintln(out, installation.Title(r.Namespace))
	}
	_, err := fmt.Fprintf(out, "would be removed; nothing was changed (--dry-run)%s\n", leaves(r))
	return err
}

// confirm asks before anything that runs is ended or lost.
func (o *options) confirm(ctx context.Context, r installation.Removal) error {
	words := "Remove Muster from this cluster? What runs goes on."
	if len(r.Kinds) > 0 {
		words = fmt.Sprintf("Remove Muster with %s, of which %s run, and %s?",
			terminal.Count(int64(r.Jobs), "job"), terminal.Count(int64(r.Live), "pod"), terminal.Count(int64(r.Queues), "queue"))
	}
	if o.yes {
		return nil
	}
	return question.Confirm(ctx, o.factory.Streams, words, "nothing was removed")
}
