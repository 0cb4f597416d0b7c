package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Extract writes one file or link of a commit to a path at which nothing is yet,
// in a folder that is there. For many files of one commit [View.Checkout] costs
// less.
func (s *Store) Extract(ctx context.Context, e *Entry, path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %q: %w", e.Path, err)
		}
	}()
	if e.Kind == tree.Link {
		return os.Symlink(e.Target, path)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm(e))
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
