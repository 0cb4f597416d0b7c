package data

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data/blobindex"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/glob"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
)

// editsAtOnce is how many changes are kept in memory before they go into the tree.
const editsAtOnce = 1 << 18

// SessionOptions say how a session begins.
type SessionOptions struct {
	// Lease is one that the caller holds until the session is over, for many
	// sessions one after another. What the branch is at has to be read after it was
	// taken. Default: one of the session's own.
	Lease *Lease
	// Open has the change go to the commit of the branch that is open when it is made, if
	// there is one.
	Open bool
}

// Session is a change to a branch that nobody sees before its commit. It is for
// one goroutine. Whoever begins one closes it.
type Session struct {
	dataset *Dataset
	store   *Store
	branch  ref.Name // or its open commit, where the change is to go there
	open    bool
	lease   *Lease
	// shared says that the lease is the caller's; pins are more leases of the session.
	shared bool
	pins   []*Lease
	writer *writer
	trees  *tree.Tree
	cancel context.CancelFunc

	base  commit.Commit // zero: the branch is not there yet
	root  tree.Root
	edits []tree.Edit
	notes []*notesWriter
	// strict gives up where the branch moved, instead of going on top of that.
	strict bool
	// failed is why the session is of no use any more.
	failed error
	closed bool
}

// Begin begins a change to a branch, which need not be there yet.
func (d *Dataset) Begin(ctx context.Context, branch string, o SessionOptions) (*Session, error) {
	name := ref.Name{Kind: ref.Branch, Name: branch}
	name, base, err := d.target(ctx, name, o.Open)
	if err != nil {
		return nil, err
	}
	lease := o.Lease
	if lease == nil {
		if lease, err = d.store.pinBase(ctx, base); err != nil {
			return nil, err
		}
	} else if err := lease.standing(); err != nil {
		return nil, err
	}
	s := &Session{dataset: d, store: d.store, branch: name, open: o.Open, lease: lease, shared: o.Lease != nil, base: base, root: base.Tree}
	// What is condemned is read after the lease is there: what is condemned later
	// stays at least as long as the lease.
	condemned, err := d.store.condemned(ctx)
	if err != nil {
		return nil, errors.Join(err, s.release(context.WithoutCancel(ctx)))
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.writer = newWriter(ctx, d.store, &blobindex.Known{Indices: lease.stored, Condemned: condemned})
	s.trees = tree.New(s.writer, &d.store.nodes)
	if !s.shared {
		err = s.follow(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	s.root = s.base.Tree
	return s, nil
}

// pinBase takes a lease on the commit that a change begins at, if there is one.
func (s *Store) pinBase(ctx context.Context, base commit.Commit) (*Lease, error) {
	if base.ID.IsZero() {
		return s.Pin(ctx)
	}
	return s.Pin(ctx, base.ID)
}

// release gives the leases back that are the session's.
func (s *Session) release(ctx context.Context) (err error) {
	for _, l := range s.pins {
		err = errors.Join(err, l.Release(ctx))
	}
	if !s.shared {
		err = errors.Join(err, s.lease.Release(ctx))
	}
	return err
}

// follow makes the base what the branch is at while the lease pins it: the branch
// may go elsewhere before the lease is there, and what it was at may be collected.
func (s *Session) follow(ctx context.Context) error {
	for {
		name, now, err := s.dataset.target(ctx, s.branch, s.open)
		if err != nil {
			return err
		}
		s.branch = name
		if now.ID == s.base.ID {
			return nil
		}
		if !now.ID.IsZero() && !s.shared {
			if err := s.lease.add(ctx, now.ID); err != nil {
				return err
			}
		}
		s.base = now
	}
}

// branch is the commit that a branch is at, zero where there is none.
func (d *Dataset) branch(ctx context.Context, name ref.Name) (commit.Commit, error) {
	c, err := d.head(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return commit.Commit{}, nil
	}
	return c, err
}

// target is what a change to a branch goes to, and the commit that this is at: the open
// commit of the branch, if it is to go there and there is one.
func (d *Dataset) target(ctx context.Context, name ref.Name, open bool) (ref.Name, commit.Commit, error) {
	if open {
		name.Kind = ref.Open
		c, err := d.branch(ctx, name)
		if err != nil || !c.ID.IsZero() {
			return name, c, err
		}
	}
	name.Kind = ref.Branch
	c, err := d.branch(ctx, name)
	return name, c, err
}

// Target is what the change goes to: a branch, or the open commit of one. After Commit it
// is where it went.
func (s *Session) Target() ref.Name { return s.branch }

// Base is what the branch was at when the session began, or where it went since;
// nil where it is not there.
func (s *Session) Base() *View {
	if s.base.ID.IsZero() {
		return nil
	}
	return &View{store: s.store, commit: s.base}
}

// set notes a change, which goes into the tree with others.
func (s *Session) set(ctx context.Context, e tree.Edit) error {
	s.edits = append(s.edits, e)
	if len(s.edits) < editsAtOnce {
		return nil
	}
	return s.apply(ctx)
}

// apply puts the changes that are noted into the tree. Of two at one path the
// later one counts.
func (s *Session) apply(ctx context.Context) error {
	if len(s.edits) == 0 {
		return nil
	}
	inOrder := func(a, b tree.Edit) int { return cmp.Compare(a.Path, b.Path) }
	if !slices.IsSortedFunc(s.edits, inOrder) {
		slices.SortStableFunc(s.edits, inOrder)
	}
	last := s.edits[:0]
	for i := range s.edits {
		if i+1 < len(s.edits) && s.edits[i+1].Path == s.edits[i].Path {
			continue
		}
		last = append(last, s.edits[i])
	}
	root, err := s.trees.Apply(ctx, s.writer, s.root, last)
	if err != nil {
		return fmt.Errorf("changing the tree: %w", err)
	}
	clear(s.edits)
	s.root, s.edits = root, s.edits[:0]
	return nil
}

// Remove removes every entry that a pattern matches, and says how many.
func (s *Session) Remove(ctx context.Context, pattern string) (int64, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	if err := s.apply(ctx); err != nil {
		return 0, s.fail(err)
	}
	match, err := glob.Compile(pattern)
	if err != nil {
		return 0, err
	}
	removed := int64(0)
	for e, err := range match.Entries(ctx, s.trees, s.root) {
		if err == nil {
			removed++
			err = s.set(ctx, tree.Edit{Path: e.Path})
		}
		if err != nil {
			return removed, s.fail(err)
		}
	}
	if err := s.apply(ctx); err != nil {
		return removed, s.fail(err)
	}
	return removed, nil
}

func (s *Session) usable() error {
	if s.failed != nil {
		return fmt.Errorf("the session failed before: %w", s.failed)
	}
	if s.closed {
		return errors.New("the session is over: begin another one")
	}
	return nil
}

func (s *Session) fail(err error) error {
	s.failed = err
	return err
}

// CommitOptions say what a commit says.
type CommitOptions struct {
	Author  string
	Message string
	// AllowEmpty makes a commit even where nothing differs from the one before.
	AllowEmpty bool
	// Parents are commits that this one continues, too, after the branch's.
	Parents []digest.ID
	// Check is asked whenever the change is about to be put on top of a commit of the
	// branch, nil where the branch is not there; nobody else can come between. An
	// error is the commit's. Default: nothing is asked.
	Check func(ctx context.Context, on *View) error
	// Orphan makes a commit without any before it: what the branch was at is kept
	// by nothing then, and is for the next collection.
	Orphan bool
	// Provenance says what it was made of; see [commit.Commit].
	Provenance json.RawMessage
}

// PutResult is what came of a change.
type PutResult struct {
	// Commit is the commit that the branch is at now; Before what it was at, zero
	// where it was not there.
	Commit commit.Commit
	Before digest.ID
	// Unchanged says that nothing differed and no commit was made.
	Unchanged bool
	// Stored is how many bytes were written.
	Stored int64
}

// Commit makes the change a commit of its branch. When it returns nil, the commit
// is durable and everybody sees it. If the branch moved meanwhile, the change is
// put on top of where it is now, path by path. The session is over then.
func (s *Session) Commit(ctx context.Context, o CommitOptions) (PutResult, error) {
	if err := s.usable(); err != nil {
		return PutResult{}, err
	}
	if err := s.apply(ctx); err != nil {
		return PutResult{}, s.fail(err)
	}
	for {
		result, err := s.publish(ctx, o)
		var moved *ref.MovedError
		if errors.As(err, &moved) && !s.strict {
			if err = s.rebase(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return PutResult{}, s.fail(fmt.Errorf("committing to %s: %w", s.branch, err))
		}
		s.keepNotes()
		// The commit stands; a lease that stays behind ends by itself.
		_ = s.Close(context.WithoutCancel(ctx))
		return result, nil
	}
}

// publish makes everything durable, then the commit, and then moves the head.
func (s *Session) publish(ctx context.Context, o CommitOptions) (PutResult, error) {
	before := s.base.ID
	if o.Check != nil {
		if err := o.Check(ctx, s.Base()); err != nil {
			return PutResult{}, err
		}
	}
	var conditions []ref.Move
	if s.open && s.branch.Kind == ref.Branch {
		conditions = []ref.Move{ref.Name{Kind: ref.Open, Name: s.branch.Name}.Stays(digest.ID{})}
	}
	if s.root.ID == s.base.Tree.ID && !before.IsZero() && !o.AllowEmpty && len(o.Parents) == 0 {
		var err error
		if s.open { // it counts where the change would go now
			err = s.swap(ctx, s.dataset, append(conditions, s.branch.Stays(before))...)
		}
		return PutResult{Commit: s.base, Before: before, Unchanged: true, Stored: s.writer.written()}, err
	}
	c, err := s.place(ctx, s.dataset, s.branch, s.base, s.root, o, conditions...)
	if err != nil {
		return PutResult{}, err
	}
	return PutResult{Commit: c, Before: before, Stored: s.writer.written()}, nil
}

// rebase puts the change on top of where the branch is now.
func (s *Session) rebase(ctx context.Context) error {
	mine, base := s.root, s.base.Tree
	if err := s.follow(ctx); err != nil {
		return err
	}
	s.root = s.base.Tree
	for c, err := range s.trees.Diff(ctx, base, mine) {
		if err == nil {
			err = s.set(ctx, tree.Edit{Path: c.Path, Entry: c.To})
		}
		if err != nil {
			return err
		}
	}
	return s.apply(ctx)
}

// Close gives up what is not committed. After a commit it does nothing.
func (s *Session) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.cancel()
	_ = s.writer.group.Wait() // what is stored already is for the next collection
	s.writer.drop()
	for _, n := range s.notes {
		n.drop()
	}
	return s.release(ctx)
}

// checkShape refuses a tree in which something is a file and a folder at once, or a new link
// leads out over others. It costs what differs from a tree in which nothing does.
func checkShape(ctx context.Context, trees *tree.Tree, from, to tree.Root) error {
	folder := "" // the last one of which it is known that no file has its name
	for c, err := range trees.Diff(ctx, from, to) {
		if err != nil {
			return err
		}
		if c.To == nil {
			continue
		}
		if worktree.Reserved(c.Path) {
			return fmt.Errorf("%q is the rest of a checkout that was broken off: remove it, or check out again", c.Path)
		}
		if err := trees.CheckLink(ctx, to, c.To); err != nil {
			return err
		}
		if c.From != nil {
			continue
		}
		for i := 0; i < len(c.Path); i++ {
			if c.Path[i] != '/' || strings.HasPrefix(folder, c.Path[:i+1]) {
				continue
			}
			_, err := trees.Get(ctx, to, c.Path[:i])
			if err == nil {
				return clash(c.Path[:i], c.Path)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		folder = c.Path[:strings.LastIndexByte(c.Path, '/')+1]
		if from.ID.IsZero() {
			continue // what is below it is new, too
		}
		for e, err := range trees.From(ctx, to, c.Path+"/") {
			if err != nil {
				return err
			}
			if strings.HasPrefix(e.Path, c.Path+"/") {
				return clash(c.Path, e.Path)
			}
			break
		}
	}
	return nil
}

func clash(file, below string) error {
	return fmt.Errorf("%q would be a file and, for %q, a folder: remove one of them first", file, below)
}
