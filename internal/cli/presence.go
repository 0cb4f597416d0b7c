package cli

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/presence"
)

// need is the part of Muster on a cluster that a verb needs.
type need string

const (
	// needsMuster is the need of a verb that is not among needs.
	needsMuster need = ""
	// needsNothing is that of a verb that makes sense without a cluster, or checks itself for Muster.
	needsNothing need = "nothing"
	// needsCluster is that of a verb that removes the rest of Muster.
	needsCluster need = "a cluster"
	// needsKinds is that of a verb that also knows kinds of others.
	needsKinds need = "kinds"
)

// needs are those of verbs, by their paths. That of a group is that of its verbs.
var needs = map[string]need{
	"muster": needsNothing, "muster completion": needsNothing, "muster credential": needsNothing, "muster help": needsNothing, "muster exit-codes": needsNothing,
	"muster version": needsNothing, "muster simulate": needsNothing, "muster prune": needsNothing,
	"muster install": needsNothing, "muster uninstall": needsNothing, "muster serve": needsNothing, "muster doctor": needsNothing,
	"muster up": needsNothing, "muster down": needsNothing, "muster status": needsNothing, "muster control-plane": needsNothing,
	"muster worker": needsNothing, "muster spark": needsNothing, "muster node agent": needsNothing,
	"muster node remove": needsCluster, "muster user list": needsCluster, "muster user remove": needsCluster,
	"muster get": needsKinds, "muster describe": needsKinds,
}

func needOf(cmd *cobra.Command) need {
	for at := cmd; at != nil && at.HasParent(); at = at.Parent() {
		if n, listed := needs[at.CommandPath()]; listed {
			return n
		}
	}
	if !cmd.HasParent() {
		return needsNothing
	}
	return needsMuster
}

// attend makes every verb below a command check first that Muster is on the cluster, and that a
// manager runs there.
func attend(f *connection.Factory, cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		attend(f, below)
	}
	n, run := needOf(cmd), cmd.RunE
	if n == needsNothing || run == nil || cmd.HasSubCommands() {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dry := cmd.Flags().Lookup("dry-run"); dry != nil && dry.Changed {
			return run(cmd, args)
		}
		found := presence.Look(cmd.Context(), f)
		if found.Absent && n == needsMuster {
			return presence.ErrAbsent
		}
		found.Warn(f.Streams)
		err := run(cmd, args)
		if code, _ := exit.Of(err); found.Absent && n == needsKinds && err != nil && code != exit.Misuse {
			return presence.ErrAbsent
		}
		return err
	}
}
