package cat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/tree"
)

// run writes what is wanted, address by address.
func run(ctx context.Context, f *connection.Factory, wanted []address.Address) error {
	store, err := opening.OpenStore(ctx, f)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	for _, a := range wanted {
		if _, err := opening.Object(ctx, store.Server, store.Namespace, a.Dataset); err != nil {
			return err
		}
		view, release, err := store.Dataset(a.Dataset).Hold(ctx, a)
		if err != nil {
			return err
		}
		err = write(ctx, terminal.Data(f.Streams.Out), view, a)
		release()
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes a file, or all that match.
func write(ctx context.Context, out io.Writer, view *data.View, a address.Address) error {
	if !address.IsPattern(a.Path) {
		return one(ctx, out, view, address.Literal(a.Path), a)
	}
	found := false
	err := view.Walk(ctx, a.Path, func(e tree.Entry) error {
		if e.Kind != tree.File {
			return nil
		}
		found = true
		return one(ctx, out, view, e.Path, a)
	})
	if err == nil && !found {
		return exit.NotFound("%s: nothing matches", a)
	}
	return err
}

func one(ctx context.Context, out io.Writer, view *data.View, path string, a address.Address) (err error) {
	entry, err := view.Stat(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.NotFound("%s@%s has no file %s", a.Dataset, a.Revision(), path)
	case err != nil:
		return err
	case entry.Kind == tree.Folder:
		return exit.Usage("%s is a folder: give a file, or '%s:/%s/*' for all that are in it", path, a.Dataset, path)
	}
	file, err := view.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.Copy(out, file); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
