// Package branch is the command `muster data branch`.
package branch

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/label"
	"github.com/muster-dev/muster/internal/data/ref"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return label.Add(f, &cobra.Command{
		Use:   "branch DATASET[@VERSION] [NAME]",
		Short: "List, make and delete branches",
		Long: `Without a name, lists the branches of a dataset. With one, makes a branch at a
version (the branch main, where none is given), at once whatever its size: both share what
they have in common. With --move, a branch that is there already goes to that
version; muster data branch digits@main~1 main --move takes back the last commit
of main.`,
		Example: `  muster data branch digits
  muster data branch digits@v1 cleaned
  muster data branch digits cleaned --delete`,
	}, ref.Branch)
}
