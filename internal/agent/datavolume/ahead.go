package datavolume

import (
	"context"
	"sync"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/fetcher"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
)

// Orders are what is to be fetched before a pod names it.
type Orders interface {
	// Ahead are those of this node. If they are those that seen stands for, which came
	// with the last ones, others are waited for a while.
	Ahead(ctx context.Context, seen string) (orders []v1alpha1.DataOrder, version string, err error)
}

const (
	// obeyedFor is for how long orders are obeyed while nobody can be asked for others.
	obeyedFor = time.Minute
	// spareAgain is the pause after something could not be fetched ahead; it doubles up
	// to spareLongest.
	spareAgain   = 5 * time.Second
	spareLongest = 5 * time.Minute
)

// settled is for how long data was not used that is removed for what nobody needs yet:
// orders that come and go do not take room from one another.
const settled = 10 * time.Minute

// errand is an order that is obeyed.
type errand struct {
	part volume
	// done is true once the data was on this node, or its commit is unfit ([data.Unfit]). Data
	// that is removed to make room is not fetched ahead again: a pod that needs it fetches it.
	done bool
	// due is when it is tried again, after pause.
	due   time.Time
	pause time.Duration
}

// agenda is what is fetched ahead, one after the other, while nothing is fetched that a
// pod waits for.
type agenda struct {
	now  func() time.Time
	news chan struct{} // has something whenever there may be something to do

	mu      sync.Mutex
	errands []*errand
	// pods is how many errands of pods are under way.
	pods int
	// current is what is being fetched; end ends that, and idle is closed then.
	current *errand
	end     context.CancelFunc
	idle    chan struct{}
}

func newAgenda(now func() time.Time) *agenda {
	return &agenda{now: now, news: make(chan struct{}, 1)}
}

func (a *agenda) wake() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// set takes over orders. What is being fetched and is not among them is ended.
func (a *agenda) set(orders []v1alpha1.DataOrder) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := map[string]*errand{}
	for _, e := range a.errands {
		known[e.part.part()] = e
	}
	a.errands = nil
	stays := false
	for _, o := range orders {
		v := volume{Namespace: o.Namespace, Commit: o.Commit, Path: o.Path, Key: o.Key, Words: printable(o.Words)}
		if v.checkPart() != nil {
			continue // a pod that names it hears why
		}
		e := known[v.part()]
		if e == nil {
			e = &errand{part: v}
			known[v.part()] = e
		}
		a.errands = append(a.errands, e)
		stays = stays || e == a.current
	}
	if a.current != nil && !stays {
		a.end()
	}
	a.wake()
}

// yield ends what is being fetched ahead, and has nothing be until done is called.
func (a *agenda) yield() (done func()) {
	a.mu.Lock()
	a.pods++
	idle := a.idle
	if a.current != nil {
		a.end()
	}
	a.mu.Unlock()
	if idle != nil {
		<-idle
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.pods--
		a.wake()
	}
}

// begin begins the next errand, if one may: else it is nil, and after pause one may be;
// zero: that is not known.
func (a *agenda) begin(life context.Context) (ctx context.Context, next *errand, pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods > 0 {
		return nil, nil, 0
	}
	for _, e := range a.errands {
		left := e.due.Sub(a.now())
		if !e.done && left <= 0 {
			ctx, a.end = context.WithCancel(life)
			a.current, a.idle = e, make(chan struct{})
			return ctx, e, 0
		}
		if !e.done && (pause == 0 || left < pause) {
			pause = left
		}
	}
	return nil, nil, pause
}

// ended notes how the errand under way ended; broken says that it was interrupted.
func (a *agenda) ended(err error, broken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.current
	a.end()
	close(a.idle)
	a.current, a.idle = nil, nil
	switch {
	case err == nil, !broken && data.Unfit(err):
		e.done = true
	case !broken:
		e.pause = min(spareLongest, max(spareAgain, 2*e.pause))
		e.due = a.now().Add(e.pause)
	}
}

// keys are those of what is ordered, in the cache.
func (a *agenda) keys() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := map[string]bool{}
	for _, e := range a.errands {
		if e.part.Key != "" {
			keys[cache.Scoped(e.part.Namespace, e.part.Key)] = true
		}
	}
	return keys
}

// lookAhead fetches what is ordered until the context ends.
func (s *Server) lookAhead(life context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for life.Err() == nil {
		ctx, e, pause := s.agenda.begin(life)
		if e != nil {
			err := s.fetchAhead(ctx, e.part)
			broken := ctx.Err() != nil
			if err != nil && !broken {
				s.options.Log.Info("not fetched ahead; a pod that names it fetches it", "namespace", e.part.Namespace, "commit", e.part.Commit, "path", e.part.Path, "because", err)
			}
			s.agenda.ended(err, broken)
			continue
		}
		timer.Stop()
		if pause > 0 {
			timer.Reset(pause)
		}
		select {
		case <-life.Done():
		case <-s.agenda.news:
		case <-timer.C:
		}
	}
}

// fetchAhead has a part here for whoever comes, if there is room that nobody has used
// for a while.
func (s *Server) fetchAhead(ctx context.Context, v volume) error {
	if v.Key != "" {
		if _, here := s.options.Cache.Path(ctx, cache.Scoped(v.Namespace, v.Key)); here {
			return nil
		}
	}
	began := s.options.Now()
	disk, err := s.options.Cache.Disk()
	if err != nil {
		return err
	}
	part := fetcher.Part{Namespace: v.Namespace, Commit: v.Commit, Path: v.Path, Ahead: true}
	spare := cache.Spare{Leave: disk / 100 * int64(s.options.LeaveFree), Idle: settled, Keep: s.agenda.keys()}
	if err := s.options.Cache.Ensure(ctx, part, &spare, nil); err != nil {
		return err
	}
	s.options.Log.Info("fetched ahead", "namespace", v.Namespace, "commit", v.Commit, "path", v.Path, "took", s.options.Now().Sub(began))
	return nil
}

// takeOrders hears what is ordered until the context ends.
func (s *Server) takeOrders(ctx context.Context) {
	seen, heard, pause := "", s.options.Now(), s.options.Backoff
	for ctx.Err() == nil {
		orders, version, err := s.options.Orders.Ahead(ctx, seen)
		if err == nil {
			seen, heard, pause = version, s.options.Now(), s.options.Backoff
			s.agenda.set(orders)
			continue
		}
		if s.options.Now().Sub(heard) > obeyedFor {
			s.agenda.set(nil)
			seen = ""
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, max(longestBackoff, s.options.Backoff))
	}
}
