package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// Store is a folder of snapshots. Its methods may be called from several
// goroutines, and several processes may open the same folder.
type Store struct {
	dir  string
	disk disk
}

// The parts of a store's folder.
const (
	blobsDir = "blobs"
	treesDir = "trees"
	usesDir  = "uses"
	indexDir = "index"
	tempDir  = "tmp"
	lockFile = "lock"
)

// digestPrefix begins every digest.
const digestPrefix = "sha256:"

// ErrNotStored is returned, wrapped, for a digest that the store does not
// hold.
var ErrNotStored = errors.New("not stored here")

// ErrAway is returned, wrapped, where it cannot be known just now what is
// stored.
var ErrAway = errors.New("the store of code does not answer")

// ErrAsked is returned, wrapped, where the store is being asked what it has, and
// who wants to know is told once that is known.
var ErrAsked = errors.New("the store is asked for it")

// Open opens the store in dir, makes it where there is none (readable by its
// owner alone), and removes what an interrupted writer left.
func Open(dir string) (*Store, error) {
	return open(dir, osDisk{})
}

func open(dir string, d disk) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the code store %s: %w", dir, err)
	}
	s := &Store{dir: abs, disk: d}
	if err := osfile.MakeFolder(abs, 0o700); err != nil {
		return nil, fmt.Errorf("opening the code store: %w", err)
	}
	for _, part := range []string{blobsDir, treesDir, usesDir, indexDir, tempDir} {
		if err := d.mkdir(filepath.Join(abs, part)); err != nil {
			return nil, fmt.Errorf("opening the code store: %w", err)
		}
	}
	if err := d.syncDir(abs); err != nil {
		return nil, fmt.Errorf("opening the code store: %w", err)
	}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("opening the code store %s: %w", abs, err)
	}
	return s, nil
}

// Has reports whether the snapshot is stored, whole, and reserves it: what was
// found stays for the grace period, in which whoever asked may come to refer
// to it. It waits for a [Store.Prune] that is removing just now.
func (s *Store) Has(digest string) bool {
	name, err := hexOf(digest)
	if err != nil {
		return false
	}
	if unlock, err := s.share(); err == nil {
		defer unlock()
	}
	path := s.path(treesDir, name)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	_ = s.disk.touch(path, time.Now()) // on a disk that cannot be written nothing is removed either
	return true
}

// Contains reports whether the snapshot holds a file, or a symbolic link, at
// the slash-separated path. The error wraps [ErrNotStored] where the store
// does not hold the snapshot.
func (s *Store) Contains(digest, path string) (bool, error) {
	tree, err := s.readTree(digest)
	if err != nil {
		return false, err
	}
	return tree.contains(path), nil
}

// path is where the content of the given hash lies: sharded by its first two
// digits.
func (s *Store) path(part, hash string) string {
	return filepath.Join(s.dir, part, hash[:2], hash)
}

// hasBlob reports whether the blob is stored with all of its bytes.
func (s *Store) hasBlob(hash string, size int64) bool {
	info, err := os.Lstat(s.path(blobsDir, hash))
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// share holds the store against sweepers while something is being written;
// call the result to let go.
func (s *Store) share() (func(), error) {
	return s.flock(osfile.LockShared)
}

func (s *Store) flock(lock func(*os.File) error) (func(), error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the code store: %w", err)
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking the code store: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// sweep removes temporary files, unless somebody is writing just now.
func (s *Store) sweep() error {
	unlock, err := s.flock(osfile.TryLock)
	if errors.Is(err, osfile.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return s.removeTemporary()
}

// removeTemporary removes what interrupted writers left. The store is held
// against all others.
func (s *Store) removeTemporary() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, tempDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.dir, tempDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// hexOf takes the hash out of a digest, and refuses what is none: it becomes
// part of a path.
func hexOf(digest string) (string, error) {
	name, ok := strings.CutPrefix(digest, digestPrefix)
	if !ok || len(name) != 64 || strings.Trim(name, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not a snapshot's digest (sha256: and 64 hexadecimal digits)", digest)
	}
	return name, nil
}
