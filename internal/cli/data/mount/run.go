package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data/mount"
)

// run mounts, and stays until it is unmounted or ctx ends.
func run(ctx context.Context, f *connection.Factory, a address.Address, folder string) error {
	if err := mount.Available(); err != nil {
		return exit.With(exit.Failure, err)
	}
	d, err := opening.OpenKept(ctx, f, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	view, release, err := d.Hold(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	if err := empty(folder); err != nil {
		return err
	}
	m, err := mount.Open(ctx, mount.Options{
		View: view, Path: a.Path, Point: folder, Log: slog.New(slog.NewTextHandler(f.Streams.Err, nil)),
	})
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("%s: there is no such file or folder", a)
	}
	if err != nil {
		return err
	}
	usage := m.Usage()
	_, err = fmt.Fprintf(f.Streams.Out, "%s (commit %s) is at %s: %s, %s; ^C unmounts\n",
		a, view.Commit().ID.Short(), m.Point(), terminal.Count(usage.Files, "file"), terminal.Size64(usage.Bytes))
	if err == nil {
		select {
		case <-m.Done():
			return nil
		case <-ctx.Done():
		}
	}
	held, closing := m.Close()
	if held {
		_, _ = fmt.Fprintf(f.Streams.Err, "%s is unmounted; what is still open there (a shell in it?) cannot be read any more\n", m.Point())
	}
	return errors.Join(err, closing)
}

// empty makes a folder be there with nothing in it: a mount would hide that. A mount
// whose server was killed is taken away.
func empty(folder string) error {
	if mount.Dead(folder) {
		if err := mount.Unmount(folder, true); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return exit.Usage("making the folder to mount at: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("looking at the folder to mount at: %w", err)
	}
	if len(entries) > 0 {
		return exit.Usage("%s has something in it, which a mount would hide: give an empty folder, or one that is not there", folder)
	}
	return nil
}
