package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/room"
)

// The default limits of a snapshot.
const (
	DefaultMaxBytes = 512 << 20
	DefaultMaxFiles = 50_000
)

// Options bound and watch a snapshot. The zero value is fine.
type Options struct {
	// MaxBytes is the largest sum of file sizes. Default: [DefaultMaxBytes].
	MaxBytes int64
	// MaxFiles is the largest number of files. Default: [DefaultMaxFiles].
	MaxFiles int
	// Without is a folder that is never code, wherever it lies: Muster's own
	// data. Empty: none.
	Without string
	// Outside returns an error if users of the snapshot do not see an absolute path that a link leads
	// to. Nil: links to absolute paths are refused. Of a link only its text is in the snapshot.
	Outside func(link, target string) error
	// Progress, when set, is called after each file, by one goroutine at a
	// time.
	Progress func(Progress)
}

// Progress is how far a snapshot has come.
type Progress struct {
	// Files of TotalFiles are stored.
	Files, TotalFiles int
	// Bytes of TotalBytes are stored.
	Bytes, TotalBytes int64
}

// Result is what a snapshot did.
type Result struct {
	// Digest names the snapshot.
	Digest string
	// Files and Bytes count what is in it.
	Files int
	Bytes int64
	// StoredFiles and StoredBytes count the contents that the store did not
	// have before.
	StoredFiles int
	StoredBytes int64
	// Skipped are files and folders that were left out, at most
	// [MaxSkipped]; a folder stands for all that is in it.
	Skipped []Skipped
	// SkippedCount is how many were left out.
	SkippedCount int
}

// MaxSkipped is how many left-out files a [Result] names.
const MaxSkipped = 200

// Skipped is one file or folder that was left out.
type Skipped struct {
	// Path is relative to the folder.
	Path string
	// Reason says why, in words.
	Reason string
}

const (
	// readers is how many files are read, and blobs synced, at once.
	readers = 16
	// smallFile is the size up to which a file is held in memory and read
	// once only.
	smallFile = 1 << 20
	// attempts is how often a file that changes while it is read is read.
	attempts = 3
)

// Snapshot stores the folder, or the single file, at path and returns what it
// is called. An unchanged folder is neither read nor written again. Everything
// is on disk when it returns.
//
// Errors are sentences for the person who submits the code: too many bytes or
// files (naming the largest folders), a file that cannot be read or keeps
// changing, a symbolic link that leads out of the folder.
func (s *Store) Snapshot(ctx context.Context, path string, opts Options) (Result, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.MaxFiles == 0 {
		opts.MaxFiles = DefaultMaxFiles
	}
	return s.snapshot(ctx, path, opts, true)
}

func (s *Store) snapshot(ctx context.Context, path string, opts Options, remember bool) (Result, error) {
	// 1. See what is there.
	found, err := scan(ctx, path, opts)
	if err != nil {
		return Result{}, fmt.Errorf("taking a snapshot of %s: %w", path, err)
	}
	if err := room.Check(s.dir, 0); err != nil {
		return Result{}, fmt.Errorf("storing the snapshot of %s: %w", path, err)
	}
	unlock, err := s.share()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	// 2. Find each file's hash, from the index or by reading it, and write
	// contents that are new.
	root, err := os.OpenRoot(found.dir)
	if err != nil {
		return Result{}, fmt.Errorf("taking a snapshot of %s: %w", path, err)
	}
	defer func() { _ = root.Close() }()
	take := &taking{store: s, found: found, root: root, index: s.loadIndex(found), progress: opts.Progress, fresh: map[string]string{}}
	defer take.discard()
	if err := take.files(ctx); err != nil {
		return Result{}, fmt.Errorf("taking a snapshot of %s: %w", path, err)
	}
	// 3. Make the contents last, then write the tree that names them.
	if err := take.publish(ctx); err != nil {
		return Result{}, fmt.Errorf("storing the snapshot of %s: %w", path, err)
	}
	data, name, err := found.tree.encode()
	if err != nil {
		return Result{}, fmt.Errorf("taking a snapshot of %s: %w", path, err)
	}
	if err := s.putTree(name, data); err != nil {
		return Result{}, fmt.Errorf("storing the snapshot of %s: %w", path, err)
	}
	// 4. Remember what was read. The index only saves time: a full disk here
	// costs nothing but the next reading.
	if remember {
		_ = s.saveIndex(found, take.index)
	}
	return Result{
		Digest: digestPrefix + name, Files: len(found.files), Bytes: found.bytes,
		StoredFiles: take.storedFiles, StoredBytes: take.storedBytes,
		Skipped: found.skipped, SkippedCount: found.skippedCount,
	}, nil
}

// taking is one snapshot being taken.
type taking struct {
	store *Store
	found *scanned
	// root is the folder that files are read in: a link that appears meanwhile leads nowhere else.
	root     *os.Root
	index    *index
	progress func(Progress)

	mu          sync.Mutex
	done        Progress
	fresh       map[string]string // hash of a new blob: its temporary file
	storedFiles int
	storedBytes int64
}

// files sees to every file's content.
func (t *taking) files(ctx context.Context) error {
	t.done = Progress{TotalFiles: len(t.found.files), TotalBytes: t.found.bytes}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i := range t.found.files {
		f := &t.found.files[i]
		e := &t.found.tree.Entries[f.entry]
		// The common case, unchanged, costs no goroutine.
		t.mu.Lock()
		hash, known := t.index.lookup(e.Path, f.info)
		t.mu.Unlock()
		if known && t.store.hasBlob(hash, e.Size) {
			e.Hash = hash
			t.tick(e.Size)
			continue
		}
		if within.Err() != nil {
			break
		}
		group.Go(func() error { return t.file(within, f, e) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// A file that counted on an equal one to be stored is read again where
	// that one changed before it was.
	for i := range t.found.files {
		f := &t.found.files[i]
		e := &t.found.tree.Entries[f.entry]
		if _, fresh := t.fresh[e.Hash]; fresh || e.Hash != "" && t.store.hasBlob(e.Hash, e.Size) {
			continue
		}
		if err := t.file(ctx, f, e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (t *taking) tick(size int64) {
	if t.progress == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done.Files++
	t.done.Bytes += size
	t.progress(t.done)
}

// file reads one file until it holds still.
func (t *taking) file(ctx context.Context, f *scannedFile, e *entry) error {
	for range attempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		steady, err := t.read(f, e)
		if err != nil {
			return err
		}
		if steady {
			t.tick(e.Size)
			return nil
		}
	}
	return fmt.Errorf("%s changed while it was read, %d times in a row; stop what writes to it, or name it in .musterignore", e.Path, attempts)
}

// read reads the file once. steady is false where it changed meanwhile.
func (t *taking) read(f *scannedFile, e *entry) (steady bool, err error) {
	in, err := osfile.OpenRegular(t.root, f.name)
	if errors.Is(err, osfile.ErrChanged) {
		return false, nil
	}
	if _, other := errors.AsType[*osfile.KindError](err); other {
		return false, fmt.Errorf("%s was replaced while the snapshot was taken; try again", e.Path)
	}
	if err != nil {
		return false, readingError(e.Path, err)
	}
	defer func() { _ = in.Close() }()
	began := time.Now()
	before, err := in.Stat()
	if err != nil {
		return false, readingError(e.Path, err)
	}
	var hash string
	var size int64
	if before.Size() <= smallFile {
		hash, size, err = t.readSmall(in, before.Size())
	} else {
		hash, size, err = t.readLarge(in)
	}
	if errors.Is(err, errUnsteady) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", e.Path, err)
	}
	after, err := in.Stat()
	if err != nil {
		return false, readingError(e.Path, err)
	}
	if size != before.Size() || stampOf(before) != stampOf(after) {
		return false, nil
	}
	e.Size, e.Hash, e.Mode = size, hash, uint32(before.Mode().Perm())
	t.mu.Lock()
	t.index.record(e.Path, before, hash, began)
	t.mu.Unlock()
	return true, nil
}

var errUnsteady = errors.New("changed while it was read")

// readSmall reads a file that fits into memory, and writes its blob if it is
// new.
func (t *taking) readSmall(in io.Reader, size int64) (string, int64, error) {
	data := make([]byte, 0, size+1)
	buf := bytes.NewBuffer(data)
	if _, err := io.Copy(buf, io.LimitReader(in, size+1)); err != nil {
		return "", 0, err
	}
	if int64(buf.Len()) != size {
		return "", 0, errUnsteady
	}
	sum := sha256.Sum256(buf.Bytes())
	hash := hex.EncodeToString(sum[:])
	return hash, size, t.write(hash, size, func(out io.Writer) error {
		_, err := out.Write(buf.Bytes())
		return err
	})
}

// readLarge reads a file of any size: once for its hash, and again only if its
// blob is new.
func (t *taking) readLarge(in *os.File) (string, int64, error) {
	hasher := sha256.New()
	size, err := io.Copy(hasher, in)
	if err != nil {
		return "", 0, err
	}
	hash := hex.EncodeToString(hasher.Sum(nil))
	return hash, size, t.write(hash, size, func(out io.Writer) error {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		again := sha256.New()
		n, err := io.Copy(io.MultiWriter(out, again), io.LimitReader(in, size+1))
		if err != nil {
			return err
		}
		if n != size || hex.EncodeToString(again.Sum(nil)) != hash {
			return errUnsteady
		}
		return nil
	})
}

// write puts a new blob into a temporary file; a blob that the store has, or
// that this snapshot has seen, is skipped.
func (t *taking) write(hash string, size int64, content func(io.Writer) error) error {
	t.mu.Lock()
	_, seen := t.fresh[hash]
	if seen || t.store.hasBlob(hash, size) {
		t.mu.Unlock()
		return nil
	}
	t.fresh[hash] = "" // claimed
	t.mu.Unlock()
	temp, err := t.store.writeTemp(hash, content)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.fresh, hash)
		return err
	}
	t.fresh[hash] = temp
	t.storedFiles++
	t.storedBytes += size
	return nil
}

// publish gives every new blob its name. Afterwards all of them survive a loss
// of power.
func (t *taking) publish(ctx context.Context) error {
	if len(t.fresh) == 0 {
		return nil
	}
	s := t.store
	shards := map[string]bool{}
	for hash := range t.fresh {
		shards[filepath.Dir(s.path(blobsDir, hash))] = true
	}
	for shard := range shards {
		if err := s.disk.mkdir(shard); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for hash, temp := range t.fresh {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return s.disk.rename(temp, s.path(blobsDir, hash))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	t.fresh = nil
	shards[filepath.Join(s.dir, blobsDir)] = true
	return s.syncDirs(shards)
}

// syncDirs makes the names in folders last, many at once: the file system
// joins them into one commit.
func (s *Store) syncDirs(dirs map[string]bool) error {
	var group errgroup.Group
	group.SetLimit(4 * readers)
	for dir := range dirs {
		group.Go(func() error { return s.disk.syncDir(dir) })
	}
	return group.Wait()
}

// discard removes temporary files of a snapshot that came to nothing.
func (t *taking) discard() {
	for _, temp := range t.fresh {
		if temp != "" {
			_ = os.Remove(temp)
		}
	}
}

func readingError(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s cannot be read (%w); make it readable, or name it in .musterignore", path, err)
	}
	return fmt.Errorf("reading %s: %w", path, err)
}
