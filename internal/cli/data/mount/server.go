package mount

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/mount/roster"
	"github.com/muster-dev/muster/internal/data/ref"
)

// ServerName is the name of the hidden command that serves one mount of a job. Its
// arguments are the home of an embedded Muster and the folder of the mount.
const ServerName = "mount-server"

// NewServer returns the hidden command. Nobody types it.
func NewServer(*connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    ServerName + " HOME FOLDER",
		Short:  "Serve a mount of a job (what `muster up` starts)",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exit.Usage("muster data %s is started by `muster up`: use `muster data mount`", ServerName)
			}
			return roster.Serve(cmd.Context(), args[1], func(ctx context.Context, o roster.Order) (*data.View, func(), error) {
				return source(ctx, args[0], o)
			})
		},
	}
}

// source opens a commit of the store in a home, and keeps collections away from it for
// as long as it is mounted.
func source(ctx context.Context, home string, o roster.Order) (*data.View, func(), error) {
	id, err := digest.Parse(o.Commit)
	if err != nil {
		return nil, nil, err
	}
	store, err := open(ctx, home, o.Source)
	if err != nil {
		return nil, nil, err
	}
	lease, err := store.Pin(ctx, id)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	release := func() {
		_ = lease.Release(context.WithoutCancel(ctx)) // one that stays behind ends by itself
		_ = store.Close()
	}
	view, err := store.Dataset(&ref.Memory{}).At(ctx, o.Commit)
	if err != nil {
		release()
		return nil, nil, err
	}
	return view, release, nil
}

// open opens the store of a namespace, or that of a Muster of one user.
func open(ctx context.Context, home, namespace string) (*data.Store, error) {
	if namespace == "" {
		return opening.OpenFolder(ctx, home)
	}
	return opening.OpenNamespace(ctx, home, namespace)
}
