// Package prune is the command `muster prune`: removes code snapshots, built
// environments and results of pipelines that nobody uses any more, now.
//
// What is in use is found out by package reference below; what may go is
// decided by internal/environment/retention.
package prune

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/environment/upkeep"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
	now     func() time.Time

	config    string
	olderThan time.Duration
	request   upkeep.Request
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command { return newCommand(f, time.Now) }

func newCommand(f *connection.Factory, now func() time.Time) *cobra.Command {
	o := &options{factory: f, now: now}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove code snapshots, environments and results that nobody uses",
		Long: `Removes code snapshots and built environments from the data folder that no job
and no pod refers to and that were last used longer ago than the retention in
the configuration (14 days unless it says otherwise), and says how much space
that freed. muster up does the same once a day. The configuration is the file
that --config names, else the one that the last muster up named, else
config.yaml in the data folder.

Results of pipelines go, too, that no stage's output has any more and that were
last used longer ago than 30 days (retention: results), but where a run is on its
way; muster data gc frees their bytes. So do the datasets muster-state-PIPELINE of
pipelines that have been gone for as long.

What a job or a running process uses is never removed, and neither is what was
stored, built or asked for within the last hour, since a job that names it may
be on its way. If it cannot be found out what is in use, nothing is removed.`,
		Example: "  muster prune --dry-run\n  muster prune --older-than 0s\n  muster prune --config other.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.format = output.Flag(cmd, formats...)
	cmd.Flags().StringVar(&o.config, "config", "", "configuration file (default: that of the last muster up)")
	cmd.Flags().DurationVar(&o.olderThan, "older-than", 0, "remove what was last used longer ago than this, such as 48h or 0s (default: the retention in the configuration)")
	cmd.Flags().BoolVar(&o.request.DryRun, "dry-run", false, "only say what would go")
	_ = cmd.RegisterFlagCompletionFunc("older-than", cobra.FixedCompletions([]string{"0s", "24h", "168h", "336h"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *options) complete(cmd *cobra.Command) error {
	if err := o.format.Validate(formats...); err != nil {
		return err
	}
	if cmd.Flags().Changed("older-than") {
		if o.olderThan < 0 {
			return exit.Usage("--older-than %s: give 0s or more, such as 48h", o.olderThan)
		}
		o.request.OlderThan = &o.olderThan
	}
	// Another server's objects say nothing about what this folder's are used
	// for.
	for _, name := range []string{"kubeconfig", "context"} {
		if cmd.Flags().Changed(name) {
			return exit.Usage("--%s and prune do not go together: it removes from a data folder, and only that folder's own Muster knows what is in use; choose the folder with --home", name)
		}
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	home, err := o.factory.Home()
	if err != nil {
		return err
	}
	config, err := o.settings(instance.Home(home))
	if err != nil {
		return exit.With(exit.Misuse, err)
	}
	own := o.ownServer(home)
	server, err := own.Dynamic()
	if err != nil {
		return err
	}
	store, err := source.Open(filepath.Join(home, "code"))
	if err != nil {
		return err
	}
	keeper := upkeep.New(upkeep.Options{
		Store: store, Environments: filepath.Join(home, "environments"),
		References:       reference.Reader{Server: server, Home: home, Images: config.Images},
		KeepCode:         time.Duration(config.Retention.Code),
		KeepEnvironments: time.Duration(config.Retention.Environments),
		Now:              o.now,
	})
	report, pruning := keeper.Prune(ctx, o.request)
	if pruning != nil && report.Bytes() == 0 {
		return own.Explain(pruning)
	}
	results, sweeping := o.results(ctx, own, home, time.Duration(config.Retention.Results))
	// What went is told, whatever went wrong after it.
	if err := o.print(report, results); err != nil {
		return err
	}
	return errors.Join(own.Explain(pruning), own.Explain(sweeping))
}

// settings reads the configuration: the file that was named here, or at the
// last start, must be there.
func (o *options) settings(home instance.Home) (configuration.Embedded, error) {
	if o.config != "" {
		return configuration.Load(o.config, true)
	}
	state, _, err := home.Read()
	if err != nil {
		return configuration.Embedded{}, err
	}
	if state.Settings == "" {
		return configuration.Load(home.Config(), false)
	}
	config, err := configuration.Load(state.Settings, true)
	if err != nil {
		return config, fmt.Errorf("%w (the last muster up named that file; give another with --config)", err)
	}
	return config, nil
}

// ownServer finds the server of the data folder, whatever else the environment
// names.
func (o *options) ownServer(home string) *connection.Factory {
	own := connection.New(o.factory.Streams, o.factory.Version)
	own.Getenv = func(name string) string {
		if name == connection.EnvHome {
			return home
		}
		return ""
	}
	return own
}

func (o *options) print(report upkeep.Report, results Results) error {
	if *o.format != output.Human {
		d := o.document(report)
		d.Results = results
		return output.Print(o.factory.Streams.Out, *o.format, d)
	}
	if err := o.sentences(report); err != nil {
		return err
	}
	return o.sayResults(results)
}

// sentences writes a table of what went, and what that comes to.
func (o *options) sentences(report upkeep.Report) error {
	out := o.factory.Streams.Out
	if table := o.table(report); table.Len() > 0 {
		if err := table.Write(out, o.factory.Streams.OutStyle(), ""); err != nil {
			return err
		}
	}
	for _, line := range o.lines(report) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
