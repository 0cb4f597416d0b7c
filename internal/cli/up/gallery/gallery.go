// Package gallery knows the images that stages of pipelines run in on one machine, and
// those on top of which packages are put: it has them fetched before a pod names them,
// and says what is in them.
//
// It must not know how images are pulled, nor what is done with the answer.
package gallery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/node/image"
)

const (
	// lookedUp is for how long what is known of an image is not asked for again,
	// and lookAgain is that of what went wrong.
	lookedUp, lookAgain = 10 * time.Second, 5 * time.Second
	// bearable is for how long who asks is kept waiting: as long as it takes to look
	// at an image that is here.
	bearable = 300 * time.Millisecond
	// grace is the time after its first check in which a store that has never answered may still
	// start: it may start with Muster. lookEvery is the interval of these checks.
	grace, lookEvery = 30 * time.Second, 5 * time.Second
)

// Puller makes sure that an image is here.
type Puller interface {
	// Fetch is that of [image.Store].
	Fetch(context.Context, image.Request) (image.Image, error)
	// Check is that of [image.Store].
	Check(context.Context) (string, error)
}

// Gallery says what images are that stages of pipelines run in, and has them
// pulled before a job is made that names them.
type Gallery struct {
	// store is nil where none can be run, and none says why.
	store Puller
	none  string
	// mapped are those that stand for something of this machine.
	mapped configuration.Images
	now    func() time.Time
	asks   chan *asked

	mu    sync.Mutex
	known map[string]*asked
	// absent is the error of a store that has not answered since its first check at begun; nil: it has
	// answered, or was not checked.
	absent error
	begun  time.Time
}

// asked is one look at an image.
type asked struct {
	name  string
	done  chan struct{}
	state pipeline.ImageState
	begun time.Time
	until time.Time // zero: it is not done
	// before is the look before this one, which may count for some while this is not done.
	before *asked
}

// old says that a look that is over does not count: it is too long ago, or was before
// since, unless that is still to come by this clock.
func (a *asked) old(now, since time.Time) bool {
	return !a.until.IsZero() && (now.After(a.until) || a.begun.Before(since) && !since.After(now))
}

// New makes a gallery. Where store is nil, none says why images cannot be run; mapped
// are those that stand for something of this machine.
func New(store Puller, none string, mapped configuration.Images) *Gallery {
	return &Gallery{store: store, none: none, mapped: mapped, now: time.Now, asks: make(chan *asked, 64), known: map[string]*asked{}}
}

// Run looks at images until ctx ends.
func (s *Gallery) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	if s.store != nil {
		group.Go(func() { s.await(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-s.asks:
			group.Go(func() { s.look(ctx, a) })
		}
	}
}

// await checks the store until it answers. A store that has answered may be down for a while: its
// callers wait then.
func (s *Gallery) await(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		_, err := s.store.Check(ctx)
		if ctx.Err() != nil {
			return
		}
		s.noteAbsent(err)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Gallery) noteAbsent(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.IsZero() {
		s.begun = s.now()
	}
	s.absent = err
}

// refusal is the reason why this machine runs no images that are not mapped; nil: it runs them, or
// that is not known yet.
func (s *Gallery) refusal(name string) error {
	why := s.none
	if s.store != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.absent == nil || s.now().Sub(s.begun) < grace {
			return nil
		}
		why = s.absent.Error()
	}
	return errors.New(configuration.NotRun(name, why))
}

// look fetches an image once.
func (s *Gallery) look(ctx context.Context, a *asked) {
	// The holder is no pod, so the node lets go of what it holds before long; images
	// that are here stay without it.
	const holder = "stages"
	got, err := s.store.Fetch(ctx, image.Request{Holder: holder, Name: a.name})
	keep := lookedUp
	if err != nil {
		keep = lookAgain
	}
	s.mu.Lock()
	a.state = pipeline.ImageState{Digest: got.Digest}
	if err != nil {
		a.state = pipeline.ImageState{Message: err.Error(), Failed: image.ReasonOf(err) == image.InvalidName}
	}
	a.until = s.now().Add(keep)
	close(a.done)
	s.mu.Unlock()
}

// Check implements [pipeline.Images].
func (s *Gallery) Check(name string) error {
	if _, here := s.mapped.Find(name); here {
		return nil
	}
	return s.refusal(name)
}

// Ensure implements [pipeline.Images].
func (s *Gallery) Ensure(name string, since time.Time) pipeline.ImageState {
	if to, here := s.mapped.Find(name); here {
		return pipeline.ImageState{Host: true, Path: to.Folder()}
	}
	if err := s.refusal(name); err != nil {
		return pipeline.ImageState{Failed: true, Message: err.Error()}
	}
	s.mu.Lock()
	a, now := s.known[name], s.now()
	if a != nil && a.until.IsZero() && a.before != nil && !a.before.old(now, since) {
		a = a.before
	}
	if a == nil || a.old(now, since) {
		a = &asked{name: name, begun: now, done: make(chan struct{}), before: a}
		if a.before != nil {
			a.before.before = nil
		}
		select {
		case s.asks <- a:
			s.known[name] = a
		default:
			a.state.Message = "many images are being looked at"
			close(a.done)
		}
	}
	s.mu.Unlock()
	timer := time.NewTimer(bearable)
	defer timer.Stop()
	select {
	case <-a.done:
		return a.state
	case <-timer.C:
		return pipeline.ImageState{Message: "the image " + name + " is being fetched"}
	}
}
