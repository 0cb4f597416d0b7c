package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Partial is a file that is written in pieces, by many at once.
type Partial struct {
	worktree *Worktree
	file     *os.File
	path     string
	temp     string
	// Begun reports whether an earlier try wrote some of it: its pieces have to be compared.
	Begun bool
}

// Begin begins a file that is written in pieces, or goes on with what an earlier try wrote of it.
func (w *Worktree) Begin(f *File) (*Partial, error) {
	if err := w.clearPlace(f.Path); err != nil {
		return nil, err
	}
	p := &Partial{worktree: w, path: f.Path, temp: f.temp()}
	if p.file = w.regular(p.temp, f, os.O_RDWR); p.file != nil {
		p.Begun = true
		return p, nil
	}
	if err := w.root.RemoveAll(p.temp); err != nil {
		return nil, wrap("removing what was begun of", f.Path, err)
	}
	var err error
	if p.file, err = w.root.OpenFile(p.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, w.mode(f)); err != nil {
		return nil, wrap("making", f.Path, err)
	}
	if err := p.file.Truncate(f.Size); err != nil {
		return nil, fmt.Errorf("making %q of %d bytes: %w", f.Path, f.Size, errors.Join(err, p.file.Close()))
	}
	return p, nil
}

// ReadAt implements [io.ReaderAt].
func (p *Partial) ReadAt(into []byte, offset int64) (int, error) { return p.file.ReadAt(into, offset) }

// WriteAt implements [io.WriterAt].
func (p *Partial) WriteAt(piece []byte, offset int64) (int, error) {
	return p.file.WriteAt(piece, offset)
}

// Commit renames the file to its final name, and replaces an existing file. It removes the file if
// the rename fails.
func (p *Partial) Commit() (replaced bool, err error) {
	if err := p.file.Close(); err != nil {
		return false, err
	}
	return p.worktree.rename(p.temp, p.path)
}

// Abort closes the file. What was written of it stays for the next try. After Commit it does
// nothing.
func (p *Partial) Abort() error {
	if err := p.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}
