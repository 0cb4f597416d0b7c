// Package queue is the command `muster queue`: the verbs for queues.
package queue

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/create"
	"github.com/muster-dev/muster/internal/cli/queue/delete"
	"github.com/muster-dev/muster/internal/cli/queue/describe"
	"github.com/muster-dev/muster/internal/cli/queue/edit"
	"github.com/muster-dev/muster/internal/cli/queue/list"
	"github.com/muster-dev/muster/internal/cli/queue/move"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues", "q"},
		Short:   "Share the cluster between teams: create, list, describe, edit, delete queues, move jobs",
		Long: `Queues share the cluster between teams. Each is guaranteed amounts of GPUs, CPU
and memory that it can have whenever it wants, may borrow what others leave
idle, and takes its own back when it needs it. Queues form a tree.

Without any, one queue owns everything: default. Jobs that name no queue are in
it. A job names its queue with muster run --queue.

Classes of resources are cpu, memory, gpu (of any model), and every GPU model.`,
		Example: `  muster queue create vision --guaranteed gpu=8,cpu=64 --weight 2
  muster queue create ocr --parent vision --limit A100=4
  muster queue list`,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "; `muster queue --help` lists them"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "; did you mean muster queue " + strings.Join(near, ", or muster queue ") + "?"
			}
			return exit.Usage("muster queue %s: there is no such command%s", args[0], hint)
		},
	}
	cmd.AddCommand(create.New(f), list.New(f), describe.New(f), edit.New(f), delete.New(f), move.New(f))
	return cmd
}
