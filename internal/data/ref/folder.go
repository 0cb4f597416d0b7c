package ref

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/osfile"
)

// Folder keeps heads in a folder: a file for each, durably. Processes of one
// machine may share it; a lock on a file orders their swaps.
type Folder struct {
	root string
	mu   sync.Mutex
}

// OpenFolder opens a folder of heads, which is made if need be.
func OpenFolder(root string) (*Folder, error) {
	if err := osfile.MakeFolder(root, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for heads: %w", err)
	}
	for _, k := range []Kind{Branch, Tag, Open} {
		if err := osfile.MakeFolder(filepath.Join(root, string(k)), 0o755); err != nil {
			return nil, fmt.Errorf("making a folder for heads: %w", err)
		}
	}
	return &Folder{root: root}, nil
}

// path is the file of a head. No name has a percent sign in it.
func (f *Folder) path(name Name) string {
	return filepath.Join(f.root, string(name.Kind), strings.ReplaceAll(name.Name, "/", "%"))
}

// Get implements [Heads].
func (f *Folder) Get(ctx context.Context, name Name) (digest.ID, error) {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return digest.ID{}, err
	}
	text, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return digest.ID{}, fmt.Errorf("there is no %s: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return digest.ID{}, fmt.Errorf("reading %s: %w", name, err)
	}
	id, err := digest.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return digest.ID{}, fmt.Errorf("reading %s in %s: %w", name, f.path(name), err)
	}
	return id, nil
}

// Swap implements [Heads]. Where the process ends in the middle of it, those heads have
// moved that were named first.
func (f *Folder) Swap(ctx context.Context, moves ...Move) (err error) {
	err = ctx.Err()
	for _, move := range moves {
		err = errors.Join(err, move.Name.Check())
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	for _, move := range moves {
		found, err := f.Get(ctx, move.Name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if found != move.From {
			return &MovedError{Name: move.Name, Thought: move.From, Found: found}
		}
	}
	for _, move := range moves {
		if err := f.move(move); err != nil {
			return fmt.Errorf("moving %s: %w", move.Name, err)
		}
	}
	return nil
}

// move moves a head that is where it is said to be.
func (f *Folder) move(m Move) error {
	switch {
	case m.From == m.To:
		return nil
	case m.To.IsZero():
		if err := os.Remove(f.path(m.Name)); err != nil {
			return err
		}
	default:
		if err := f.write(m.Name, m.To); err != nil {
			return err
		}
	}
	return osfile.SyncFolder(filepath.Dir(f.path(m.Name)))
}

func (f *Folder) write(name Name, to digest.ID) error {
	temp := filepath.Join(f.root, ".incoming-"+rand.Text())
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(to.String() + "\n")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temp, f.path(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// List implements [Heads].
func (f *Folder) List(ctx context.Context) (map[Name]digest.ID, error) {
	all := map[Name]digest.ID{}
	for _, kind := range []Kind{Branch, Tag, Open} {
		entries, err := os.ReadDir(filepath.Join(f.root, string(kind)))
		if err != nil {
			return nil, fmt.Errorf("listing heads: %w", err)
		}
		for _, e := range entries {
			name := Name{Kind: kind, Name: strings.ReplaceAll(e.Name(), "%", "/")}
			id, err := f.Get(ctx, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			all[name] = id
		}
	}
	return all, nil
}

// lock waits for the other processes. The lock goes with the process that has it.
func (f *Folder) lock() (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(f.root, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking heads: %w", err)
	}
	if err := osfile.Lock(file); err != nil {
		return nil, fmt.Errorf("locking heads: %w", errors.Join(err, file.Close()))
	}
	return file.Close, nil
}
