// Package mount is the commands `muster data mount` and, hidden, the one that serves
// the mounts of jobs.
package mount

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "mount DATASET[@VERSION][:PATH] FOLDER",
		Short: "Show a version, or a part of it, as a folder, without fetching it",
		Long: `Mounts what a folder of a version holds, or a file, at an empty folder of this
machine, which is made if it is not there. What is read is fetched, and checked,
when it is read; nothing can be written. A branch is shown as it is now, whatever
becomes of it. The command stays until ^C, which unmounts; so does umount FOLDER.
It takes the kernel's file systems in user space (/dev/fuse), and for users who
are not root fusermount3 (package fuse3).`,
		Example: `  muster data mount digits@v1 /mnt/digits
  muster data mount digits:/train ./train`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, folder, err := complete(args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), f, a, folder)
		},
	}
}

func complete(args []string) (a address.Address, folder string, err error) {
	if len(args) != 2 || args[1] == "" {
		return a, "", exit.Usage("which data, and where? muster data mount digits@v1 /mnt/digits")
	}
	if a, err = address.Parse(args[0]); err != nil {
		return a, "", err
	}
	if address.IsPattern(a.Path) {
		return a, "", exit.Usage("%s: a mount shows a folder or a file, no pattern: give a folder, such as %s:/train", args[0], a.Dataset)
	}
	return a, args[1], nil
}
