// Package pipeline is the command `muster pipeline`: the verbs for stages that
// subscribe to data.
package pipeline

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/pipeline/apply"
	"github.com/muster-dev/muster/internal/cli/pipeline/delete"
	"github.com/muster-dev/muster/internal/cli/pipeline/evaluation"
	"github.com/muster-dev/muster/internal/cli/pipeline/explain"
	"github.com/muster-dev/muster/internal/cli/pipeline/graph"
	"github.com/muster-dev/muster/internal/cli/pipeline/hold"
	"github.com/muster-dev/muster/internal/cli/pipeline/list"
	"github.com/muster-dev/muster/internal/cli/pipeline/logs"
	"github.com/muster-dev/muster/internal/cli/pipeline/rerun"
	"github.com/muster-dev/muster/internal/cli/pipeline/results"
	"github.com/muster-dev/muster/internal/cli/pipeline/runs"
	"github.com/muster-dev/muster/internal/cli/pipeline/wait"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Stages that subscribe to data and compute only what changed",
		Long: `A pipeline is stages. Each reads branches of datasets or other stages, computes them a
datum at a time, and commits what it makes to a dataset of its own. A commit on a
branch that a pipeline reads starts a run, which computes what the commit changed,
and takes everything else from before: results are kept by the contents that were
read, the code, the arguments, the variables and the environment.`,
		Example: `  muster pipeline apply -f pipeline.yaml
  muster data put images/ digits -m "a hundred more"
  muster pipeline wait digits
  muster pipeline runs digits`,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "; `muster pipeline --help` lists them"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "; did you mean muster pipeline " + strings.Join(near, ", or muster pipeline ") + "?"
			}
			return exit.Usage("muster pipeline %s: there is no such command%s", args[0], hint)
		},
	}
	cmd.AddCommand(apply.New(f), list.New(f), runs.New(f), graph.New(f), logs.New(f), explain.New(f), rerun.New(f),
		wait.New(f), hold.Pause(f), hold.Resume(f), hold.Cancel(f), delete.New(f), results.New(f), evaluation.New(f))
	return cmd
}
