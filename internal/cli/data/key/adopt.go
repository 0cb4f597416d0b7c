package key

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

// newAdopt moves the access keys of an earlier version. The manager cannot: it has no right
// to list Secrets.
func newAdopt(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	copies := false
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Move the access keys of an earlier version of Muster",
		Long: `Moves access keys on a cluster: an earlier version of Muster kept each in a Secret
of its own in muster-system, and this one keeps all in a few. muster install does
this by itself. With Helm, an administrator runs the command with --copy before
the upgrade, and without it once the new managers are ready. It needs the right
to list, create, update and delete Secrets of muster-system.`,
		Example:           "  muster data key adopt --copy && helm upgrade ... && muster data key adopt",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&copies, "copy", false, "copy the keys, and leave those of the earlier version, which its managers need")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usage("muster data key adopt moves all keys: leave out %q", args[0])
		}
		return o.adopt(cmd.Context(), copies)
	}
	return cmd
}

func (o *options) adopt(ctx context.Context, copies bool) error {
	_, embedded, err := o.factory.EmbeddedHome()
	if err != nil {
		return err
	}
	if embedded {
		return exit.Usage("muster data key adopt is for clusters: on one machine all versions keep access keys in the same place")
	}
	server, err := o.factory.Client()
	if err != nil {
		return err
	}
	vault := &registry.Vault{Client: server, Namespace: v1alpha1.SystemNamespace}
	move, done := vault.Settle, "moved"
	if copies {
		move, done = vault.Copy, "copied"
	}
	n, err := move(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.factory.Streams.Out, "%d access keys of an earlier version %s\n", n, done)
	return err
}
