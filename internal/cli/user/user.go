// Package user is the command `muster user`: who uses Muster on a cluster.
package user

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// onOneMachine explains that a Muster of one machine has no users, and names the alternatives.
const onOneMachine = "this Muster is of one machine (muster up), which has no users: jobs run as the user who started it, also jobs that other people submit; " +
	"let each person start a Muster of their own, as themselves (muster up), or install Muster on Kubernetes (muster install), and add users there by its kubeconfig (--kubeconfig)"

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "user",
		Aliases: []string{"users"},
		Short:   "Who uses Muster on a cluster: add, list, remove",
		Long: `Each user has a namespace of their own, in which they submit, see and stop what is
theirs and nothing else; a queue that they may use; a network that only members
of jobs share; and a kubeconfig.`,
		Example: `  muster user add ada --queue vision
  muster user list
  muster user remove ada`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return exit.Usage("muster user %s: there is no such command; `muster user --help` lists them", args[0])
		},
	}
	cmd.AddCommand(newAdd(f), newList(f), newRemove(f))
	return cmd
}

// one is the only argument, a user's name.
func one(verb string, args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", exit.Usage("%s which user? Give a name: muster user %s ada", verb, verb)
	case 1:
		return args[0], nil
	}
	return "", exit.Usage("one user at a time: what is %q?", args[1])
}
