// Package node is the command `muster node`: which nodes of a cluster are
// Muster's alone, so that it gives out their GPUs.
package node

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/node/add"
	"github.com/muster-dev/muster/internal/cli/node/drain"
	"github.com/muster-dev/muster/internal/cli/node/list"
	"github.com/muster-dev/muster/internal/cli/node/remove"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "node",
		Aliases: []string{"nodes"},
		Short:   "Say which nodes' GPUs are Muster's to give out: add, remove, drain, list",
		Long: `Two schedulers cannot give out the same GPUs. On a cluster Muster gives out those
of nodes that are its own: muster node add labels them and taints them, so that
nobody else's pods come there. Work without GPUs may go to any node.

On one machine (muster up) there is nothing to add.`,
		Example: `  muster node list
  muster node add gpu-1 gpu-2
  muster node remove gpu-1 --wait
  muster node drain gpu-1`,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "; `muster node --help` lists them"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "; did you mean muster node " + strings.Join(near, ", or muster node ") + "?"
			}
			return exit.Usage("muster node %s: there is no such command%s", args[0], hint)
		},
	}
	cmd.AddCommand(add.New(f), remove.New(f), drain.New(f), list.New(f))
	cmd.AddCommand(onLinux(f)...)
	return cmd
}
