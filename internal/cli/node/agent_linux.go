package node

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/node/agent"
)

// onLinux are the commands that only run on Linux.
func onLinux(f *connection.Factory) []*cobra.Command {
	return []*cobra.Command{agent.New(f), agent.NewFetch(f)}
}
