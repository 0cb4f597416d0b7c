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
	for i := range t.Entries {
		if e := &t.Entries[i]; !safePath(e.Path) || e.Type == typeFile && !safeHash(e.Hash) {
			return nil, fmt.Errorf("reading code snapshot %s: entry %q is not allowed", digest, e.Path)
		}
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
