package agent

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/agent/fetcher"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// fetchName is the name of the command that [NewFetch] returns.
const fetchName = "fetch"

// NewFetch returns the hidden command by which an agent starts the process that fetches.
func NewFetch(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:                fetchName,
		Short:              "Fetch code and data for the agent of this node, which starts this",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := fetcher.Main(cmd.Context(), args, f.Streams.Err); code != 0 {
				return exit.With(exit.Code(code), nil)
			}
			return nil
		},
	}
}
