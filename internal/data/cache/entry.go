package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/osfile"
)

// What is in the folder of an entry.
const (
	filesFolder = "files"
	noteFile    = "note"
)

// entry is what is known of an entry. All but key and scope is behind the cache's lock, or
// belongs to whoever is busy with it.
type entry struct {
	key   string
	scope string
	boot  string
	whole bool
	// begun is true where something of it may be on disk.
	begun bool
	// files and bytes are how much it is, or is going to be.
	files, bytes int64
	// commit and path are what it was fetched for.
	commit digest.ID
	path   string
	// newest is when the last of its files and folders was written.
	newest time.Time
	used   time.Time
	holds  int
	// busy is closed once who works on it is done; nil: nobody does.
	busy  chan struct{}
	heard map[*struct{ _ byte }]func(data.Progress)
}

// listen has somebody hear of how far the entry is, who leaves by the key.
func (e *entry) listen(hear func(data.Progress)) *struct{ _ byte } {
	seat := &struct{ _ byte }{}
	if hear != nil {
		if e.heard == nil {
			e.heard = map[*struct{ _ byte }]func(data.Progress){}
		}
		e.heard[seat] = hear
	}
	return seat
}

// note is what is written of an entry.
type note struct {
	// Whole says that all of it is there, since the machine was started as Boot.
	Whole bool   `json:"whole"`
	Boot  string `json:"boot"`
	// Files and Bytes are how much it is.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Scope is for whom it was fetched; empty: for anybody.
	Scope string `json:"scope,omitempty"`
	// Commit and Path are what it was fetched for.
	Commit digest.ID `json:"commit"`
	Path   string    `json:"path"`
	// Newest is when the last file or folder of a whole one was written.
	Newest time.Time `json:"newest,omitzero"`
}

// errNoNote says that a folder is no entry.
var errNoNote = errors.New("there is no note that can be read")

// read reads what is known of an entry.
func read(folder string) (*entry, error) {
	path := filepath.Join(folder, noteFile)
	text, err := os.ReadFile(path)
	var n note
	switch {
	case err != nil && os.IsPermission(err):
		return nil, err
	case err != nil || json.Unmarshal(text, &n) != nil || n.Bytes < 0 || n.Files < 0:
		return nil, errNoNote
	}
	used, err := os.Stat(folder)
	if err != nil {
		return nil, err
	}
	return &entry{scope: n.Scope, boot: n.Boot, whole: n.Whole, begun: true, files: n.Files, bytes: n.Bytes, commit: n.Commit, path: n.Path, newest: n.Newest, used: used.ModTime()}, nil
}

// write writes the note, whole or not at all.
func (n note) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a folder for data: %w", err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("noting what is fetched: %w", err)
	}
	// The note names the boot of the machine, and the fetched files are not synced either:
	// after a loss of power they are fetched again.
	if err := osfile.ReplaceUnsynced(filepath.Join(folder, noteFile), text, 0o644); err != nil {
		return fmt.Errorf("noting what is fetched: %w", err)
	}
	return nil
}

// intact says that nothing in an entry was written, added or taken away since it was
// whole, by the times of its folders and, with each, of its files.
func (e *entry) intact(ctx context.Context, folder string, each bool) (bool, error) {
	files, newest, err := survey(ctx, filepath.Join(folder, filesFolder), each)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return files == e.files && !newest.After(e.newest), err
}
