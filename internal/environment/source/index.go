package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// index remembers what the files of one folder held when they were last read.
type index struct {
	// Root is the folder, so that the file can be understood by a person.
	Root  string                 `json:"root"`
	Files map[string]indexedFile `json:"files"`

	changed bool
}

// indexedFile is one file as it was last read.
type indexedFile struct {
	Stamp stamp  `json:"stamp"`
	Hash  string `json:"hash"`
}

// stamp is what a file system tells of a file and what no edit leaves as it
// is: the change time moves with every write and every change of size, times
// or mode, and cannot be set back.
type stamp struct {
	Device uint64 `json:"dev"`
	Inode  uint64 `json:"ino"`
	Size   int64  `json:"size"`
	Mtime  int64  `json:"mtime"`
	Ctime  int64  `json:"ctime"`
}

func stampOf(info fs.FileInfo) stamp {
	return stamp(osfile.StampOf(info))
}

// The time within which a second write may leave the same time stamp: a few
// ticks of the kernel's clock, and a second where the file system keeps none
// of its fractions. Clocks of file servers may run apart from ours by more,
// hence the generous bounds.
const (
	fineClock   = 100 * time.Millisecond
	coarseClock = 3 * time.Second
)

// racy reports whether the file could have been written again after it was
// read at the given time, and still carry this stamp.
func (s stamp) racy(read time.Time) bool {
	window := fineClock
	if s.Ctime%int64(time.Second) == 0 {
		window = coarseClock
	}
	return read.UnixNano()-s.Ctime < int64(window)
}

// lookup returns the hash of a file that has not changed since it was read.
func (x *index) lookup(path string, info fs.FileInfo) (string, bool) {
	f, ok := x.Files[path]
	if !ok || f.Stamp != stampOf(info) {
		return "", false
	}
	return f.Hash, true
}

// record remembers a file that was read at the given time, unless its stamp
// proves nothing yet.
func (x *index) record(path string, info fs.FileInfo, hash string, read time.Time) {
	x.changed = true
	s := stampOf(info)
	if s == (stamp{}) || s.racy(read) {
		delete(x.Files, path)
		return
	}
	x.Files[path] = indexedFile{Stamp: s, Hash: hash}
}

// indexPath is where the index of a folder lies.
func (s *Store) indexPath(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(s.dir, indexDir, hex.EncodeToString(sum[:])+".json")
}

// loadIndex reads the folder's index. One that is missing or damaged is empty.
func (s *Store) loadIndex(found *scanned) *index {
	empty := &index{Root: found.root, Files: map[string]indexedFile{}}
	data, err := os.ReadFile(s.indexPath(found.root))
	if err != nil {
		return empty
	}
	sum, body, ok := bytes.Cut(data, []byte("\n"))
	want := sha256.Sum256(body)
	if !ok || hex.EncodeToString(want[:]) != string(sum) {
		return empty
	}
	x := &index{}
	if json.Unmarshal(body, x) != nil || x.Root != found.root || x.Files == nil {
		return empty
	}
	return x
}

// saveIndex writes the folder's index if there is something new in it. It is
// checked when it is read, so it need not survive a loss of power.
func (s *Store) saveIndex(found *scanned, x *index) error {
	if len(x.Files) > len(found.files) {
		present := make(map[string]bool, len(found.files))
		for i := range found.files {
			present[found.tree.Entries[found.files[i].entry].Path] = true
		}
		for path := range x.Files {
			if !present[path] {
				delete(x.Files, path)
				x.changed = true
			}
		}
	}
	if !x.changed {
		return nil
	}
	body, err := json.Marshal(x)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	out, err := os.CreateTemp(filepath.Join(s.dir, tempDir), "index-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.MultiReader(bytes.NewReader([]byte(hex.EncodeToString(sum[:])+"\n")), bytes.NewReader(body)))
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(out.Name())
		return err
	}
	return os.Rename(out.Name(), s.indexPath(found.root))
}
