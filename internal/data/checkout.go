package data

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/glob"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
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
	// Reuse, if given, may put a file at its path in the target by other means, and says
	// whether it did; what it puts there is trusted. It must not replace what is there. It is
	// not called twice at once.
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
// broken off goes on; what is there with another content is replaced, links in the place of
// folders included. Nothing outside of the folder is touched, whatever the commit holds and
// whatever is in the folder: a commit with a link that leads out of it is refused.
func (v *View) Checkout(ctx context.Context, dir string, o CheckoutOptions) (CheckoutResult, error) {
	w, err := worktree.Open(dir, o.worktree())
	if err != nil {
		return CheckoutResult{}, err
	}
	return v.checkout(ctx, w, dir, o)
}

// CheckoutIn is [View.Checkout] into a folder that is open, and that it closes.
func (v *View) CheckoutIn(ctx context.Context, root *os.Root, o CheckoutOptions) (CheckoutResult, error) {
	w, err := worktree.In(root, o.worktree())
	if err != nil {
		return CheckoutResult{}, err
	}
	return v.checkout(ctx, w, root.Name(), o)
}

func (o CheckoutOptions) worktree() worktree.Options {
	w := worktree.Options{RemoveFolders: o.Delete}
	if o.ReadOnly {
		w.Mask = 0o222
	}
	return w
}

func (v *View) checkout(ctx context.Context, w *worktree.Worktree, dir string, o CheckoutOptions) (result CheckoutResult, err error) {
	defer func() {
		if err = errors.Join(err, w.Close()); err != nil {
			err = fmt.Errorf("checking out into %s: %w", dir, err)
		}
	}()
	match, err := glob.Compile(o.Pattern)
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
	c := &checkout{store: v.store, to: w, below: below, match: match, root: v.commit.Tree, links: tree.Links{}, reuse: o.Reuse, tell: o.Progress}
	if err = c.run(ctx); err == nil && o.Delete && !w.Fresh() {
		err = c.clear(ctx)
	}
	if err == nil {
		err = c.inside()
	}
	return c.result, err
}

// unfitError reports a commit that no checkout writes.
type unfitError struct{ error }

// Unfit reports whether an error is about the content of a commit, so that another try of reading or
// checking out the commit fails, too.
func Unfit(err error) bool {
	_, unfit := errors.AsType[unfitError](err)
	_, name := errors.AsType[*worktree.NameError](err)
	return unfit || name || errors.Is(err, pack.ErrDamaged)
}

// MarkUnfit returns an error for which [Unfit] is true: another process said so.
func MarkUnfit(err error) error { return unfitError{err} }

// checkout is one run.
type checkout struct {
	store *Store
	to    *worktree.Worktree
	below string
	match *glob.Pattern
	root  tree.Root
	reuse func(*tree.Entry, string) bool
	tell  func(Progress)
	tasks chan func(context.Context, *scratch) error
	links tree.Links

	mu     sync.Mutex
	result CheckoutResult
	meter  meter
	// begun are the long files that are being written.
	begun map[*longFile]bool
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
	if c.match.Text == "" && c.below == "" {
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
	err := group.Wait()
	for f := range c.begun {
		err = errors.Join(err, f.Abort())
	}
	if err != nil {
		return err
	}
	if err := c.makeLinks(); err != nil {
		return err
	}
	c.meter.done()
	return nil
}

// makeLinks makes the links, behind all files.
func (c *checkout) makeLinks() error {
	if err := c.links.Check(); err != nil {
		return unfitError{err}
	}
	for _, path := range slices.Sorted(maps.Keys(c.links)) {
		target := c.links[path]
		kept, replaced, err := c.to.Link(path, target)
		if err != nil {
			return fmt.Errorf("making link %q: %w", path, err)
		}
		if replaced {
			c.replaced(1)
		}
		keptOnes := int64(0)
		if kept {
			keptOnes = 1
		}
		c.count(1, int64(len(target)), keptOnes)
	}
	return nil
}

// inside removes links that lead out over links of an earlier checkout, and returns an error then.
func (c *checkout) inside() error {
	if c.to.Fresh() {
		return nil
	}
	for path := range c.links {
		if err := c.to.Inside(path); err != nil {
			return err
		}
	}
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
	for e, err := range c.match.Through(ctx, c.store.trees, c.root, leavesAhead) {
		if err != nil {
			return err
		}
		entry, ok, err := c.entry(e)
		switch {
		case err != nil:
			return err
		case !ok:
		case entry.Kind == tree.Link:
			c.links[entry.Path] = entry.Target
		case c.reuse != nil && c.reuse(e, entry.Path):
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
		return tree.Entry{}, false, unfitError{err}
	}
	replaced, err := c.to.Prepare(entry.Path)
	if replaced > 0 {
		c.replaced(replaced)
	}
	return entry, err == nil, err
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
func (c *checkout) replaced(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Replaced += n
}

// longFile is a file of several chunks on its way, in parts.
type longFile struct {
	*worktree.Partial
	entry tree.Entry
	left  atomic.Int64
}

func onDisk(e *tree.Entry) *worktree.File {
	return &worktree.File{Path: e.Path, Size: e.Size, Executable: e.Executable, Content: e.Content}
}

// long gives out the parts of a long file; the last one that is written gives it
// its name.
func (c *checkout) long(ctx context.Context, e tree.Entry) error {
	list, err := pieces(ctx, blobs{c.store}, &e)
	if err != nil {
		return err
	}
	if same, err := c.present(&e, list); err != nil || same {
		return err
	}
	f := &longFile{entry: e}
	if f.Partial, err = c.to.Begin(onDisk(&e)); err != nil {
		return err
	}
	c.begin(f)
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

// begin notes a long file that has to be closed whatever happens.
func (c *checkout) begin(f *longFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = map[*longFile]bool{}
	}
	c.begun[f] = true
}

// has says that a chunk is where it belongs.
func (f *longFile) has(s *scratch, p chunk.Piece, offset int64) bool {
	if int64(cap(s.raw)) < p.Size {
		s.raw = make([]byte, p.Size)
	}
	raw := s.raw[:p.Size]
	_, err := f.ReadAt(raw, offset)
	return err == nil && digest.Of(raw) == p.ID
}

func (c *checkout) part(ctx context.Context, s *scratch, f *longFile, part []chunk.Piece, offset int64) error {
	for _, p := range part {
		if f.Begun && f.has(s, p, offset) {
			offset += p.Size
			c.count(0, p.Size, 0)
			continue
		}
		raw, err := c.piece(ctx, s, p)
		if err != nil {
			return fmt.Errorf("reading %q: %w", f.entry.Path, err)
		}
		if _, err := f.WriteAt(raw, offset); err != nil {
			return fmt.Errorf("writing %q: %w", f.entry.Path, err)
		}
		offset += p.Size
		c.count(0, p.Size, 0)
	}
	if f.left.Add(-1) > 0 {
		return nil
	}
	replaced, err := f.Commit()
	if err != nil {
		return fmt.Errorf("writing %q: %w", f.entry.Path, err)
	}
	c.mu.Lock()
	delete(c.begun, f)
	c.mu.Unlock()
	if replaced {
		c.replaced(1)
	}
	c.count(1, 0, 0)
	return nil
}
