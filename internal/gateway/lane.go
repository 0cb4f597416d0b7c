package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
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
	// One of these: content is put, from is copied, remove removes, and session has
	// stored a long file already.
	content data.Content
	from    *source
	remove  bool
	session *data.Session

	done chan error
}

// source is a file that is copied.
type source struct {
	view *data.View
	path string
}

// lane is the changes to one branch.
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
		l.gather(func(contents []data.Content) { l.start(ctx, contents) })
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
// the other. Meanwhile it starts those contents that are here.
func (l *lane) gather(start func([]data.Content)) {
	patience, gap := time.NewTimer(l.gateway.o.Gather), time.NewTimer(l.gateway.o.Gather/gaps)
	defer patience.Stop()
	defer gap.Stop()
	for started := 0; ; {
		if l.enough() {
			return
		}
		if contents, n := l.fresh(started); len(contents) > 0 {
			start(contents)
			started = n
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

// fresh are the contents of those who came after the first so many, where these are
// enough to go on with, and how many have come.
func (l *lane) fresh(first int) (contents []data.Content, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes := 0
	for _, c := range l.waiting[first:] {
		if len(c.content.Bytes) > 0 {
			contents = append(contents, c.content)
			bytes += len(c.content.Bytes)
		}
	}
	if bytes < early {
		return nil, first
	}
	return contents, len(l.waiting)
}

// start has the store take contents of the next commit. Where that fails, whoever makes
// the commit meets the reason.
func (l *lane) start(ctx context.Context, contents []data.Content) {
	b, err := l.begin(ctx)
	if err != nil {
		return
	}
	if err := b.Start(ctx, contents); err != nil {
		b.end(ctx)
		return
	}
	l.ahead = b
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

// choose takes the changes that can be in one commit: of one author, of different
// paths. Those that do not fit are answered.
func choose(ctx context.Context, on *data.View, batch []*change) (chosen, later []*change) {
	paths, folders := map[string]bool{}, map[string]bool{}
	for _, c := range batch {
		wait := c.session != nil || len(chosen) > 0 && c.author != chosen[0].author || paths[c.path] || folders[c.path]
		for dir := parent(c.path); dir != "" && !wait; dir = parent(dir) {
			wait = paths[dir]
		}
		// What waits keeps others at its path waiting, too: they come in their order.
		paths[c.path] = true
		for dir := parent(c.path); dir != "" && !folders[dir]; dir = parent(dir) {
			folders[dir] = true
		}
		if wait {
			later = append(later, c)
		} else if err := c.fits(ctx, on); err != nil {
			c.done <- err
		} else if c.remove && on == nil {
			c.done <- nil
		} else {
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
}

func (l *lane) begin(ctx context.Context) (*batch, error) {
	if b := l.ahead; b != nil {
		l.ahead = nil
		return b, nil
	}
	lease, err := l.place.home.leases.take(ctx)
	if err != nil {
		return nil, err
	}
	// Where the branch is counts only if it was read while the lease stood.
	if _, err = l.place.heads.read(ctx, lease.taken); err == nil {
		var s *data.Session
		if s, err = l.place.Begin(ctx, l.branch, data.SessionOptions{Lease: lease.Lease}); err == nil {
			return &batch{Session: s, lane: l, lease: lease}, nil
		}
	}
	l.place.home.leases.give(ctx, lease)
	return nil, err
}

// end gives back what is not committed.
func (b *batch) end(ctx context.Context) {
	_ = b.Close(ctx) // what it stored is for the next collection
	b.lane.place.home.leases.give(ctx, b.lease)
}

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
	seen := b.Base()
	_, err := b.Commit(ctx, data.CommitOptions{Author: changes[0].author, Message: message(changes), Check: func(ctx context.Context, on *data.View) error {
		if on == nil && seen == nil || on != nil && seen != nil && on.Commit().ID == seen.Commit().ID {
			return nil // they were asked already
		}
		for _, c := range changes {
			if err := c.fits(ctx, on); err != nil {
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
