package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// A commit is of so many changes or bytes at most.
const (
	batchChanges = 1000
	batchBytes   = 16 << 20
	// gaps is which part of [Options.Gather] nobody may come for, before those who have
	// come are waited for no longer.
	gaps = 6
	// early is how many bytes of contents a store is given at a time while more are waited
	// for, where it takes packs of which not all is there yet.
	early = 200 << 10
	// much is from how many bytes on contents are on their way to the store while the tree
	// is made that has them: in a store of the other kind as a pack of their own.
	much = 512 << 10
)

// laneName names a branch.
type laneName struct {
	placeName
	branch string
}

// change is one write that waits for its commit.
type change struct {
	path, author string
	// fits refuses the change on top of a commit of the branch, nil where the branch
	// is not there. It may be asked more than once.
	fits func(ctx context.Context, on *data.View) error
	// fitted says that it fits on top of the commit fitsOn, which is none where the branch
	// is not there.
	fitted bool
	fitsOn digest.ID
	// One of these: content is put, from is copied, remove removes, and session has
	// stored a long file already.
	content data.Content
	from    *source
	remove  bool
	session *data.Session

	done chan error
}

// fit is fits, asked once of each commit.
func (c *change) fit(ctx context.Context, on *data.View) error {
	id := identity(on)
	if c.fitted && c.fitsOn == id {
		return nil
	}
	err := c.fits(ctx, on)
	c.fitted, c.fitsOn = err == nil, id
	return err
}

// identity is which commit a view is of; none for nil.
func identity(v *data.View) digest.ID {
	if v == nil {
		return digest.ID{}
	}
	return v.Commit().ID
}

// source is a file that is copied.
type source struct {
	view *data.View
	path string
}

// lane is the changes to one branch, or to its open commit.
type lane struct {
	gateway *Gateway
	place   *place
	branch  string

	mu      sync.Mutex
	waiting []*change
	// bytes are those of the contents that wait.
	bytes   int
	running bool
	// expected is how many are likely to come: who was answered last comes again, and
	// who came meanwhile is here.
	expected int
	arrived  chan struct{}

	// ahead is the next commit, where it has begun before all have come who are waited
	// for. It is for whoever runs the lane.
	ahead *batch
}

// commitAll waits until all changes are durable, or refused. The errors are in their
// order.
func (g *Gateway) commitAll(p *place, branch string, changes ...*change) []error {
	key := laneName{p.name, branch}
	g.mu.Lock()
	l := g.lanes[key]
	if l == nil {
		l = &lane{gateway: g, place: p, branch: branch, arrived: make(chan struct{}, 1)}
		g.lanes[key] = l
	}
	g.mu.Unlock()
	for _, c := range changes {
		c.done = make(chan error, 1)
	}
	if l.come(changes...) {
		// Not ended with the server: who was told to wait is answered.
		g.work.Go(func() { l.run(context.WithoutCancel(g.life)) })
	}
	errs := make([]error, len(changes))
	for i, c := range changes {
		errs[i] = <-c.done
	}
	return errs
}

// come has changes wait; start says that the lane has to be run for them.
func (l *lane) come(changes ...*change) (start bool) {
	l.mu.Lock()
	l.waiting = append(l.waiting, changes...)
	for _, c := range changes {
		l.bytes += len(c.content.Bytes)
	}
	start = !l.running
	l.running = true
	l.mu.Unlock()
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	return start
}

// run commits as long as there is something to commit.
func (l *lane) run(ctx context.Context) {
	for {
		l.gather(func(changes []*change) bool { return l.start(ctx, changes) })
		batch := l.take()
		if len(batch) == 0 {
			return
		}
		answered := len(batch)
		for len(batch) > 0 {
			batch = l.step(ctx, batch)
		}
		if l.ahead != nil { // nobody was for it
			l.ahead.end(ctx)
			l.ahead = nil
		}
		l.expect(answered)
	}
}

// expect foresees how many come, once so many have been answered.
func (l *lane) expect(answered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = answered + len(l.waiting)
}

// gather waits until as many have come as are likely to, as long as one comes soon after
// the other. Meanwhile start has the store take what those have who are here, until it
// says that it cannot.
func (l *lane) gather(start func([]*change) bool) {
	patience, gap := time.NewTimer(l.gateway.o.Gather), time.NewTimer(l.gateway.o.Gather/gaps)
	defer patience.Stop()
	defer gap.Stop()
	for started, able := 0, true; ; {
		if l.enough() {
			return
		}
		if changes := l.since(started); able && len(changes) > 0 {
			able = start(changes)
			started += len(changes)
		}
		select {
		case <-l.arrived:
			gap.Reset(l.gateway.o.Gather / gaps)
		case <-gap.C:
			return
		case <-patience.C:
			return
		}
	}
}

// since are those who came after the first so many, where their contents are enough to go
// on with.
func (l *lane) since(first int) []*change {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes := 0
	for _, c := range l.waiting[first:] {
		bytes += len(c.content.Bytes)
	}
	if bytes < early || l.waiting[0].session != nil { // which is a commit of its own, before theirs
		return nil
	}
	return slices.Clone(l.waiting[first:])
}

// start has the store take the contents of the next commit: of those changes that will be
// in it, for what is stored in one pack goes together. Where it cannot, whoever makes the
// commit meets the reason.
func (l *lane) start(ctx context.Context, changes []*change) bool {
	if !l.place.home.store.Starts() {
		return false
	}
	b := l.ahead
	if b == nil {
		var err error
		if b, err = l.begin(ctx); err != nil {
			return false
		}
	}
	var contents []data.Content
	for _, c := range changes {
		if b.order.waits(c) || c.fit(ctx, b.Base()) != nil {
			continue
		}
		b.order.take(c)
		if len(c.content.Bytes) > 0 {
			contents = append(contents, c.content)
		}
	}
	if err := b.Send(ctx, contents); err != nil {
		l.ahead = nil
		b.end(ctx)
		return false
	}
	l.ahead = b
	return true
}

// resume is the commit that has begun already, if there is one, and the branch is where
// it was then.
func (l *lane) resume(ctx context.Context) *batch {
	b := l.ahead
	if l.ahead = nil; b == nil {
		return nil
	}
	known, err := l.place.heads.List(ctx)
	if name, at := written(known, l.branch); err == nil && name == b.Target() && at == identity(b.Base()) {
		return b
	}
	b.end(ctx)
	return nil
}

// written is what a write to a branch goes to: its open commit, if there is one; and where
// that is.
func written(known map[ref.Name]digest.ID, branch string) (ref.Name, digest.ID) {
	name := ref.Name{Kind: ref.Open, Name: branch}
	at, open := known[name]
	if !open {
		name.Kind = ref.Branch
		at = known[name]
	}
	return name, at
}

// enough says that nobody else has to be waited for.
func (l *lane) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) >= max(l.expected, 1) || len(l.waiting) >= batchChanges || l.bytes >= batchBytes
}

// take is what goes into the next commits. Without any, the lane stops.
func (l *lane) take() []*change {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.waiting) && n < batchChanges && bytes < batchBytes {
		bytes += len(l.waiting[n].content.Bytes)
		n++
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	l.bytes -= bytes
	if l.running = n > 0; !l.running {
		l.expected = 0
	}
	return batch
}

// step makes one commit of the changes of a batch that can be in one, answers those,
// and returns the others.
func (l *lane) step(ctx context.Context, batch []*change) []*change {
	if first := batch[0]; first.session != nil {
		_, err := first.session.Commit(ctx, data.CommitOptions{Author: first.author, Message: "put " + first.path + " (S3)", Check: first.fits})
		if err != nil {
			err = errors.Join(err, first.session.Close(ctx))
		}
		first.done <- err
		return batch[1:]
	}
	s, err := l.begin(ctx)
	if err != nil {
		answer(batch, err)
		return nil
	}
	chosen, later := choose(ctx, s.Base(), batch)
	if len(chosen) > 0 {
		err = s.put(ctx, chosen)
	}
	_, unfit := errors.AsType[*unfitError](err)
	if !unfit {
		answer(chosen, err)
	}
	s.end(ctx)
	if unfit {
		// The branch moved, and something does not fit any more: all of it again.
		return append(chosen, later...)
	}
	l.gateway.bodies.give(chosen)
	return later
}

func answer(changes []*change, err error) {
	for _, c := range changes {
		c.done <- err
	}
}

// order keeps changes apart that cannot be in one commit: those of another author than
// the first, and those of a path, or below or above one, that came before. The zero value
// is for a commit without any.
type order struct {
	some           bool
	author         string
	paths, folders map[string]bool
}

// waits says whether a change has to be in another commit. What comes after it at its path
// has to, too: they come in their order.
func (o *order) waits(c *change) bool {
	wait := c.session != nil || o.some && c.author != o.author || o.paths[c.path] || o.folders[c.path]
	for dir := parent(c.path); dir != "" && !wait; dir = parent(dir) {
		wait = o.paths[dir]
	}
	if o.paths == nil {
		o.paths, o.folders = map[string]bool{}, map[string]bool{}
	}
	o.paths[c.path] = true
	for dir := parent(c.path); dir != "" && !o.folders[dir]; dir = parent(dir) {
		o.folders[dir] = true
	}
	return wait
}

// take has a change be in the commit.
func (o *order) take(c *change) {
	if !o.some {
		o.some, o.author = true, c.author
	}
}

// choose takes the changes that can be in one commit. Those that do not fit are answered.
func choose(ctx context.Context, on *data.View, batch []*change) (chosen, later []*change) {
	var o order
	for _, c := range batch {
		if o.waits(c) {
			later = append(later, c)
		} else if err := c.fit(ctx, on); err != nil {
			c.done <- err
		} else if c.remove && on == nil {
			c.done <- nil
		} else {
			o.take(c)
			chosen = append(chosen, c)
		}
	}
	return chosen, later
}

// parent is the folder that a path is in, empty at the top.
func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// batch is one commit on its way.
type batch struct {
	*data.Session
	lane  *lane
	lease *held
	// order is of those whose contents the store was given ahead.
	order order
}

// begin begins a commit, or goes on with the one that has begun.
func (l *lane) begin(ctx context.Context) (*batch, error) {
	if b := l.resume(ctx); b != nil {
		return b, nil
	}
	lease, err := l.place.home.leases.take(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.session(ctx, lease)
	if err != nil {
		l.place.home.leases.give(ctx, lease)
		return nil, err
	}
	return &batch{Session: s, lane: l, lease: lease}, nil
}

// session begins a change. Where the branch is counts only if it was read while the lease
// stood; that it is nowhere, if it was read just now.
func (l *lane) session(ctx context.Context, lease *held) (*data.Session, error) {
	known, err := l.place.heads.read(ctx, lease.taken)
	if err == nil && !branchIn(known, l.branch) {
		_, err = l.place.heads.read(ctx, time.Now())
	}
	if err != nil {
		return nil, err
	}
	return l.place.Begin(ctx, l.branch, data.SessionOptions{Lease: lease.Lease, Open: true})
}

// end gives back what is not committed.
func (b *batch) end(ctx context.Context) {
	_ = b.Close(ctx) // a pack of which no commit has anything is for the next collection
	b.lane.place.home.leases.give(ctx, b.lease)
}

// errMoved is why changes are put together again.
var errMoved = errors.New("the branch has moved")

// unfitError says that the branch moved so that something does not fit any more.
type unfitError struct{ error }

// Unwrap implements errors.
func (e *unfitError) Unwrap() error { return e.error }

// put makes changes a commit.
func (b *batch) put(ctx context.Context, changes []*change) error {
	var contents []data.Content
	bytes := 0
	for _, c := range changes {
		if c.from == nil && !c.remove {
			contents = append(contents, c.content)
			bytes += len(c.content.Bytes)
		}
	}
	if bytes >= much {
		// On its way to the disk while the tree is made.
		if err := b.Send(ctx, contents); err != nil {
			return err
		}
	}
	if err := b.Add(ctx, data.Contents(contents), data.AddOptions{}); err != nil {
		return err
	}
	for _, c := range changes {
		var err error
		if c.from != nil {
			err = b.Copy(ctx, c.from.view, c.from.path, c.path)
		} else if c.remove {
			err = b.Unset(ctx, c.path)
		}
		if err != nil {
			return err
		}
	}
	begun := identity(b.Base())
	_, err := b.Commit(ctx, data.CommitOptions{Author: changes[0].author, Message: message(changes), Check: func(ctx context.Context, on *data.View) error {
		if identity(on) != begun {
			// What was there already is a change now: where heads were may have been heard
			// before the change came, and somebody may have been answered between.
			return &unfitError{errMoved}
		}
		for _, c := range changes {
			if err := c.fit(ctx, on); err != nil {
				return &unfitError{err}
			}
		}
		return nil
	}})
	return err
}

// message is what a commit says of its changes.
func message(changes []*change) string {
	if len(changes) > 1 {
		return fmt.Sprintf("%d changes (S3)", len(changes))
	}
	switch c := changes[0]; {
	case c.remove:
		return "remove " + c.path + " (S3)"
	case c.from != nil:
		return "copy " + c.from.path + " to " + c.path + " (S3)"
	default:
		return "put " + c.path + " (S3)"
	}
}
