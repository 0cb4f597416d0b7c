package absent

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// elsewhere is the advice of most commands.
const elsewhere = "start it on a Linux machine, and name it here with --kubeconfig FILE or --context NAME"

// Command is a command that this system does not have: whatever its arguments, it
// says so, and what to do instead.
func Command(name, short, instead string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		ValidArgsFunction:  cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit.Usage("%s runs on Linux, and this is the command line alone, for %s: %s", cmd.CommandPath(), runtime.GOOS, instead)
		},
	}
}

// New returns a constructor of a command of Muster itself.
func New(name, short string) func(*connection.Factory) *cobra.Command {
	return func(*connection.Factory) *cobra.Command { return Command(name, short+" (Linux alone)", elsewhere) }
}
