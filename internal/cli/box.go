package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
)

const (
	forClusters = "it is for clusters: name one by --kubeconfig"
	usersOfBox  = "its users are those of the machine: each has namespace u-<uid> and a queue from their first command on, and an administrator adds people to the machine"
)

// notOnBox are the verbs that do not work with the Muster of all users of a machine, by
// their paths, each with what there is instead.
var notOnBox = map[string]string{
	"muster prune":          "it removes code and environments that nobody uses by itself, once a day; with --home FOLDER this removes those of a Muster of your own",
	"muster data gc":        "it collects what nothing needs by itself, once a day (`muster data du` says how much there is)",
	"muster data key adopt": forClusters,
	"muster install":        forClusters, "muster uninstall": forClusters,
	"muster user add": usersOfBox, "muster user list": usersOfBox, "muster user remove": usersOfBox,
	"muster node add": forClusters, "muster node remove": forClusters,
}

// refuseOnBox makes the verbs of [notOnBox] refuse the Muster of the machine, before they
// ask or read anything.
func refuseOnBox(f *connection.Factory, cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		refuseOnBox(f, below)
	}
	instead, listed := notOnBox[cmd.CommandPath()]
	if !listed {
		return
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if kind, err := f.Kind(); err == nil && kind == connection.Box {
			return exit.With(exit.Failure, fmt.Errorf("%s does not work with the Muster that all users of this machine share (%s): %s", cmd.CommandPath(), f.SocketPath(), instead))
		}
		return run(cmd, args)
	}
}
