//go:build !linux

package node

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
)

// onLinux are the commands that only run on Linux.
func onLinux(*connection.Factory) []*cobra.Command { return nil }
