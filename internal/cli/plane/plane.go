// Package plane is the hidden command `muster control-plane`: the body of the
// child process in which upstream's servers run. It is the one command that
// links them.
package plane

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/controlplane/contract"
	"github.com/muster-dev/muster/internal/controlplane/upstream"
)

// New returns the command. `muster up` starts it; people do not.
func New(*connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:                contract.Verb,
		Short:              "Run the API server, etcd and upstream's controllers (started by up)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return upstream.RunChild(cmd.Context(), args)
		},
	}
}
