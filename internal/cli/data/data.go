// Package data is the command `muster data`: the verbs for versioned data.
package data

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/branch"
	"github.com/muster-dev/muster/internal/cli/data/cat"
	"github.com/muster-dev/muster/internal/cli/data/create"
	"github.com/muster-dev/muster/internal/cli/data/diff"
	"github.com/muster-dev/muster/internal/cli/data/du"
	"github.com/muster-dev/muster/internal/cli/data/gc"
	"github.com/muster-dev/muster/internal/cli/data/get"
	"github.com/muster-dev/muster/internal/cli/data/key"
	"github.com/muster-dev/muster/internal/cli/data/log"
	"github.com/muster-dev/muster/internal/cli/data/ls"
	"github.com/muster-dev/muster/internal/cli/data/merge"
	"github.com/muster-dev/muster/internal/cli/data/opencommit"
	"github.com/muster-dev/muster/internal/cli/data/put"
	"github.com/muster-dev/muster/internal/cli/data/rm"
	"github.com/muster-dev/muster/internal/cli/data/tag"
	"github.com/muster-dev/muster/internal/cli/data/trace"
	"github.com/muster-dev/muster/internal/cli/data/verify"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Keep data in versions: put, get, mount, compare, branch, merge",
		Long: `Datasets are files in versions. Putting files makes a commit, which never changes;
a branch is at its last commit, and a tag names one. What is equal is stored
once, however many versions have it.

Data is named DATASET[@VERSION][:PATH]. The version is a branch, a tag, a commit
or the first digits of one, or any of them with ~N for the commit N before it;
without one, the branch main is meant. Patterns in a path are *, ? and [...],
and ** for any number of folders; a backslash takes away their meaning.

On a cluster each namespace has a store of its own, which is reached through the
API server.`,
		Example: `  muster data create digits
  muster data put images/ digits -m "the first thousand"
  muster data ls digits
  muster data log digits
  muster data get digits@main~1:/train ./before`,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "; `muster data --help` lists them"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "; did you mean muster data " + strings.Join(near, ", or muster data ") + "?"
			}
			return exit.Usage("muster data %s: there is no such command%s", args[0], hint)
		},
	}
	cmd.AddCommand(create.New(f), put.New(f), get.New(f), ls.New(f), cat.New(f), diff.New(f), log.New(f),
		opencommit.NewOpen(f), opencommit.NewClose(f), branch.New(f), merge.New(f), tag.New(f), rm.New(f), verify.New(f), gc.New(f), du.New(f), key.New(f),
		trace.New(f))
	cmd.AddCommand(onLinux(f)...)
	return cmd
}
