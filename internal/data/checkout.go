package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// CheckoutOptions say what is checked out.
type CheckoutOptions struct {
	// Pattern is which entries, as for [View.Walk]. Default: all.
	Pattern string
	// Below is a folder that paths are told from: what is in it comes directly into
	// the target. Default: the root.
	Below string
	// Delete removes what else is in the target.
	Delete bool
	// ReadOnly has files be without the right to write them.
	ReadOnly bool
	// Reuse, if given, may put a file at its path by other means, and says whether it
	// did; what it puts there is trusted. It is not called twice at once.
	Reuse func(e *Entry, path string) bool
	// Progress is told how far it is, if given.
	Progress func(Progress)
}

// CheckoutResult is what was done.
type CheckoutResult struct {
	Files, Bytes int64
	// Kept is how many files were there already, with the same content.
	Kept int64
	// Replaced is how many took the place of something else.
	Replaced int64
	// Removed is how many other ones were removed.
	Removed int64
}

const (
	// checkoutWorkers is how many read and write at once: most of the time they wait.
	checkoutWorkers = 8
	// A span is so long at most, with gaps of so much that nobody asked for.
	spanBytes = 4 << 20
	spanGap   = 64 << 10
	spanFiles = 256
	// A part of a long file is of so many chunks.
	partChunks = 4
	// leavesAhead is how many nodes of the tree are read at once: with 20 ms each,
	// as a bucket far away takes, one after the other they are 8,000 files a second.
	leavesAhead = 8
)

// Checkout writes what a commit holds into a folder, which is made if need be.
// What is there already with the same content stays, so that a checkout that was
// broken off goes on; what is there with another content is replaced.
func (v *View) Checkout(ctx context.Context, dir string, o CheckoutOptions) (CheckoutResult, error) {
	match, err := compile(o.Pattern)
	if err != nil {
		return CheckoutResult{}, err
	}
	below, err := clean(o.Below)
	if err != nil {
		return CheckoutResult{}, err
	}
	if below != "" {
		below += "/"
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return CheckoutResult{}, fmt.Errorf("making the folder for a checkout: %w", err)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return CheckoutResult{}, fmt.Errorf("looking at the folder for a checkout: %w", err)
	}
	c := &checkout{store: v.store, dir: dir, below: below, match: match, root: v.commit.Tree, fresh: len(there) == 0, reuse: o.Reuse, tell: o.Progress}
	if o.ReadOnly {
		c.mask = 0o222
	}
	if err = c.run(ctx); err == nil && o.Delete && !c.fresh {
		err = c.clear(ctx)
	}
	if err != nil {
		return c.result, fmt.Errorf("checking out into %s: %w", dir, err)
	}
	return c.result, nil
}

// checkout is one run.
type checkout struct {
	store *Store
	dir   string
	below string
	match *pattern
	root  tree.Root
	// fresh says that nothing was in the folder.
	fresh bool
	// mask is which rights files do not get.
	mask  fs.FileMode
	reuse func(*tree.Entry, string) bool
	tell  func(Progress)
	tasks chan func(context.Context, *scratch) error
	links []tree.Entry
	made  string // the last folder that was made

	mu     sync.Mutex
	result CheckoutResult
	meter  meter
}

// scratch are the buffers of one worker.
type scratch struct{ stored, raw []byte }

func (s *scratch) take(n int) []byte {
	if cap(s.stored) < n {
		// It grows as it is needed: many checkouts are of one small file.
		s.stored = make([]byte, max(n, min(2*cap(s.stored), spanBytes), 64<<10))
	}
	return s.stored[:n]
}

func (c *checkout) run(ctx context.Context) error {
	c.meter = meter{tell: c.tell}
	if c.match.text == "" && c.below == "" {
		c.meter.TotalFiles, c.meter.TotalBytes = c.root.Files, c.root.Bytes
	}
	group, ctx := errgroup.WithContext(ctx)
	c.tasks = make(chan func(context.Context, *scratch) error, checkoutWorkers)
	group.Go(func() error {
		defer close(c.tasks)
		return c.plan(ctx)
	})
	for range checkoutWorkers {
		group.Go(func() error {
			var s scratch
			for task := range c.tasks {
				if err := task(ctx, &s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range c.links {
		if err := c.link(&c.links[i]); err != nil {
			return err
		}
	}
	c.meter.done()
	return nil
}

func (c *checkout) send(ctx context.Context, task func(context.Context, *scratch) error) error {
	select {
	case c.tasks <- task:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// plan goes through the tree and gives out work: small files that lie beside one
// another in one pack are one task, long files are several.
func (c *checkout) plan(ctx context.Context) error {
	var span []tree.Entry
	flush := func() error {
		if len(span) == 0 {
			return nil
		}
		entries := span
		span = nil
		return c.send(ctx, func(ctx context.Context, s *scratch) error { return c.span(ctx, s, entries) })
	}
	for e, err := range c.match.through(ctx, c.store.trees, c.root) {
		if err != nil {
			return err
		}
		entry, ok, err := c.entry(e)
		switch {
		case err != nil:
			return err
		case !ok:
		case entry.Kind == tree.Link:
			c.links = append(c.links, entry)
		case c.reuse != nil && c.reuse(e, filepath.Join(c.dir, entry.Path)):
			c.count(1, entry.Size, 1)
		case entry.List:
			err = c.long(ctx, entry)
		default:
			if len(span) > 0 && !joins(span, &entry) {
				err = flush()
			}
			span = append(span, entry)
		}
		if err != nil {
			return err
		}
	}
	return flush()
}

// entry is an entry as the target has it, with its folder made.
func (c *checkout) entry(e *tree.Entry) (tree.Entry, bool, error) {
	if !strings.HasPrefix(e.Path, c.below) {
		return tree.Entry{}, false, nil
	}
	entry := *e
	entry.Path = e.Path[len(c.below):]
	if err := entry.Check(); err != nil {
		return tree.Entry{}, false, err
	}
	folder := filepath.Dir(entry.Path)
	if folder == c.made || folder == "." {
		return entry, true, nil
	}
	if err := os.MkdirAll(filepath.Join(c.dir, folder), 0o777); err != nil {
		return tree.Entry{}, false, fmt.Errorf("making a folder: %w", err)
	}
	c.made = folder
	return entry, true, nil
}

// joins says whether a file can be read together with those before it.
func joins(span []tree.Entry, e *tree.Entry) bool {
	if len(span) >= spanFiles {
		return false
	}
	if e.Size == 0 {
		return true
	}
	first, last := &span[0].Place, &span[len(span)-1].Place
	if last.IsZero() || first.IsZero() || e.Place.Pack != last.Pack {
		return false
	}
	end, at := int64(last.Offset)+int64(last.Stored), int64(e.Place.Offset)
	return at >= end && at-end <= spanGap && at+int64(e.Place.Stored)-int64(first.Offset) <= spanBytes
}

// count counts what is done.
func (c *checkout) count(files, bytes, kept int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Files += files
	c.result.Bytes += bytes
	c.result.Kept += kept
	c.meter.add(files, bytes)
}

// replaced counts what took the place of something else.
func (c *checkout) replaced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Replaced++
}

func (c *checkout) link(e *tree.Entry) error {
	path := filepath.Join(c.dir, e.Path)
	if found, err := os.Readlink(path); err == nil && found == e.Target {
		c.count(1, e.Size, 1)
		return nil
	}
	err := os.Remove(path)
	if err == nil {
		c.replaced()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing what is there by a link: %w", err)
	}
	if err := os.Symlink(e.Target, path); err != nil {
		return fmt.Errorf("making a link: %w", err)
	}
	c.count(1, e.Size, 0)
	return nil
}

// longFile is a file of several chunks on its way, in parts.
type longFile struct {
	entry tree.Entry
	file  *os.File
	temp  string
	// begun says that some of it may be there already.
	begun bool
	left  atomic.Int64
}

// long gives out the parts of a long file; the last one that is written gives it
// its name.
func (c *checkout) long(ctx context.Context, e tree.Entry) error {
	list, err := pieces(ctx, blobs{c.store}, &e)
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, e.Path)
	if same, err := c.present(path, &e, list); err != nil || same {
		return err
	}
	f, err := c.begin(&e, path+partial)
	if err != nil {
		return err
	}
	f.left.Store(int64((len(list) + partChunks - 1) / partChunks))
	for offset := int64(0); len(list) > 0; {
		part := list[:min(len(list), partChunks)]
		list = list[len(part):]
		at := offset
		err := c.send(ctx, func(ctx context.Context, s *scratch) error { return c.part(ctx, s, f, part, at) })
		if err != nil {
			return err
		}
		for _, p := range part {
			offset += p.Size
		}
	}
	return nil
}

// begin opens a file that is to be written in parts, or goes on with one that was
// broken off.
func (c *checkout) begin(e *tree.Entry, temp string) (*longFile, error) {
	f := &longFile{entry: *e, temp: temp}
	var err error
	if similar(temp, e) {
		if f.file, err = reopen(temp); err == nil {
			f.begun = true
			return f, nil
		}
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing what was begun of a file: %w", err)
	}
	if f.file, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm(e)&^c.mask); err != nil {
		return nil, fmt.Errorf("making a file: %w", err)
	}
	if err := f.file.Truncate(e.Size); err != nil {
		return nil, fmt.Errorf("making a file of %d bytes: %w", e.Size, errors.Join(err, f.file.Close()))
	}
	return f, nil
}

// reopen opens a file for writing whatever its rights are, which stay.
func reopen(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, info.Mode().Perm()|0o200); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	return file, errors.Join(err, os.Chmod(path, info.Mode().Perm()))
}

// has says that a chunk is where it belongs.
func (f *longFile) has(s *scratch, p chunk.Piece, offset int64) bool {
	if int64(cap(s.raw)) < p.Size {
		s.raw = make([]byte, p.Size)
	}
	raw := s.raw[:p.Size]
	_, err := f.file.ReadAt(raw, offset)
	return err == nil && digest.Of(raw) == p.ID
}

func (c *checkout) part(ctx context.Context, s *scratch, f *longFile, part []chunk.Piece, offset int64) error {
	for _, p := range part {
		if f.begun && f.has(s, p, offset) {
			offset += p.Size
			c.count(0, p.Size, 0)
			continue
		}
		raw, err := c.piece(ctx, s, p)
		if err != nil {
			return fmt.Errorf("reading %q: %w", f.entry.Path, err)
		}
		if _, err := f.file.WriteAt(raw, offset); err != nil {
			return fmt.Errorf("writing %q: %w", f.entry.Path, err)
		}
		offset += p.Size
		c.count(0, p.Size, 0)
	}
	if f.left.Add(-1) > 0 {
		return nil
	}
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("writing %q: %w", f.entry.Path, err)
	}
	path := filepath.Join(c.dir, f.entry.Path)
	_, there := os.Lstat(path)
	if err := os.Rename(f.temp, path); err != nil {
		return fmt.Errorf("writing %q: %w", f.entry.Path, err)
	}
	if there == nil {
		c.replaced()
	}
	c.count(1, 0, 0)
	return nil
}
