package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Extract writes one file or link of a commit to a path in a folder, at which nothing is
// yet; the folders of the path are made. Nothing outside of the folder is touched. For many
// files of one commit [View.Checkout] costs less.
func (s *Store) Extract(ctx context.Context, e *Entry, root *os.Root, name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %q: %w", e.Path, err)
		}
	}()
	if folder := path.Dir(name); folder != "." {
		if err := root.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	if e.Kind == tree.Link {
		if err := tree.CheckTarget(name, e.Target); err != nil {
			return err
		}
		return root.Symlink(e.Target, name)
	}
	mode := fs.FileMode(0o666)
	if e.Executable {
		mode = 0o777
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if e.Size == 0 {
		return nil
	}
	if !e.List {
		raw, err := blobs{s}.Load(ctx, pack.Data, e.Content, e.Place)
		if err == nil {
			_, err = file.Write(raw)
		}
		return err
	}
	in, err := s.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	_, err = io.Copy(file, in)
	return err
}
