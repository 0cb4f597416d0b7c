//go:build !linux

package data

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/absent"
	"github.com/muster-dev/muster/internal/cli/connection"
)

// onLinux are the commands that only run on Linux.
func onLinux(*connection.Factory) []*cobra.Command {
	return []*cobra.Command{absent.Command("mount", "Show a version as a folder (Linux alone)", "`muster data get` fetches it")}
}
