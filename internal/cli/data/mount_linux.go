package data

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/mount"
)

// onLinux are the commands that only run on Linux.
func onLinux(f *connection.Factory) []*cobra.Command {
	return []*cobra.Command{mount.New(f), mount.NewServer(f)}
}
