// Package tag is the command `muster data tag`.
package tag

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/label"
	"github.com/muster-dev/muster/internal/data/ref"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return label.Add(f, &cobra.Command{
		Use:   "tag DATASET[@VERSION] [NAME]",
		Short: "List, make and delete tags",
		Long: `Without a name, lists the tags of a dataset. With one, gives a version (the
branch main, where none is given) this name. A tag does not move, and what it
names is kept.`,
		Example: `  muster data tag digits
  muster data tag digits@main~1 v1
  muster data tag digits v1 --delete`,
	}, ref.Tag)
}
