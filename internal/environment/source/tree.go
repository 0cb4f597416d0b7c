package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"

	datatree "github.com/muster-dev/muster/internal/data/tree"
)

// The types of a tree's entries.
const (
	typeFile   = "file"
	typeFolder = "folder"
	typeLink   = "link"
)

// treeVersion is the version of the tree's encoding.
const treeVersion = 1

// tree is a snapshot's list of contents.
type tree struct {
	Version int     `json:"version"`
	Entries []entry `json:"entries"`
}

// entry is one file, folder or symbolic link.
type entry struct {
	// Path is slash-separated and relative to the snapshot's root.
	Path string `json:"path"`
	Type string `json:"type"`
	// Mode is the permission bits, of files and folders.
	Mode uint32 `json:"mode,omitempty"`
	// Size and Hash are those of a file's content.
	Size int64  `json:"size,omitempty"`
	Hash string `json:"hash,omitempty"`
	// Target is what a symbolic link says.
	Target string `json:"target,omitempty"`
}

// encode writes the tree in its only form: entries by path, fields in order,
// no white space.
func (t *tree) encode() ([]byte, string, error) {
	sort.Slice(t.Entries, func(i, j int) bool { return t.Entries[i].Path < t.Entries[j].Path })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, "", fmt.Errorf("encoding the list of files: %w", err)
	}
	sum := sha256.Sum256(out.Bytes())
	return out.Bytes(), hex.EncodeToString(sum[:]), nil
}

// readTree reads a tree and checks that it is what its name says.
func (s *Store) readTree(digest string) (*tree, error) {
	name, err := hexOf(digest)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(s.path(treesDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("code snapshot %s: %w", digest, ErrNotStored)
	}
	if err != nil {
		return nil, fmt.Errorf("reading code snapshot %s: %w", digest, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		// Out of the way, so that the next snapshot of the same code mends it.
		_ = os.Remove(s.path(treesDir, name))
		return nil, fmt.Errorf("reading code snapshot %s: its list of files is %w; submit the job again from its folder", digest, ErrDamaged)
	}
	var t tree
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("reading code snapshot %s: %w", digest, err)
	}
	if t.Version != treeVersion {
		return nil, fmt.Errorf("reading code snapshot %s: it is of version %d, this program reads version %d", digest, t.Version, treeVersion)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("reading code snapshot %s: %w", digest, err)
	}
	return &t, nil
}

// safePath refuses paths that leave the folder they are laid out in.
func safePath(p string) bool {
	return p != "" && p != "." && path.Clean(p) == p && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../")
}

func safeHash(h string) bool {
	_, err := hexOf(digestPrefix + h)
	return err == nil
}

// contains reports whether there is a file, or a symbolic link, at a path.
func (t *tree) contains(at string) bool {
	at = path.Clean(at)
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Path == at && e.Type != typeFolder {
			return true
		}
	}
	// Below a symbolic link to a folder a file may be reached by another name.
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Type == typeLink && strings.HasPrefix(at, e.Path+"/") {
			return true
		}
	}
	return false
}

// check refuses a list that no folder has: entries twice or in no order, entries below a file or
// a link, and links that lead out, over other links too.
func (t *tree) check() error {
	types := map[string]string{}
	before := ""
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Path <= before {
			return fmt.Errorf("entry %q is not in its place", e.Path)
		}
		before = e.Path
		if err := checkEntry(e); err != nil {
			return err
		}
		types[e.Path] = e.Type
	}
	for at := range types {
		if dir := path.Dir(at); dir != "." && types[dir] != typeFolder {
			return fmt.Errorf("entry %q lies in no folder", at)
		}
	}
	return t.checkLinks()
}

// checkLinks refuses links that lead out, as the kernel follows them. Links to absolute paths stay
// unchanged. Readers follow no link.
func (t *tree) checkLinks() error {
	links := datatree.Links{}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Type == typeLink && !path.IsAbs(e.Target) {
			links[e.Path] = e.Target
		}
	}
	return links.Check()
}

func checkEntry(e *entry) error {
	switch {
	case !safePath(e.Path), strings.ContainsRune(e.Path, 0), e.Mode > 0o777:
	case e.Type == typeFile && safeHash(e.Hash) && e.Size >= 0 && e.Target == "",
		e.Type == typeFolder && e.Hash == "" && e.Size == 0 && e.Target == "",
		e.Type == typeLink && e.Target != "" && !path.IsAbs(e.Target) && inside(path.Join(path.Dir(e.Path), e.Target)),
		e.Type == typeLink && path.IsAbs(e.Target) && len(e.Target) <= datatree.MaxPath && !strings.ContainsRune(e.Target, 0):
		return nil
	}
	return fmt.Errorf("entry %q is not allowed", e.Path)
}
