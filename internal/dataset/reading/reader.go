package reading

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/environment/notice"
)

// Options are what a reader works with. Client and Store are required.
type Options struct {
	// Client reads from the API server itself.
	Client client.Client
	// Store is the store of data of a namespace, which whoever gives it closes, once
	// [Reader.Run] has ended. It is asked for whenever it is needed.
	Store func(ctx context.Context, namespace string) (*data.Store, error)
	// Cache is where data is brought to. Default: nowhere; what is read is found out
	// and kept, and whoever runs the job brings it there.
	Cache *cache.Cache
	// Scope is the scope of a namespace in that cache ([cache.Scoped]). Default: the
	// namespace, so that nothing is shared between namespaces.
	Scope func(namespace string) string
	// NodeCache is how many bytes whoever brings data to a node keeps there, where there
	// is no Cache: what is more can never be fetched. Default: it is not known.
	NodeCache int64
	// Mountable says why nothing can be mounted on this machine, as
	// [mount.Available] does. Default: nothing is mounted here.
	Mountable func() error
	// Backoff is the pause after something failed that may pass; it doubles up to a
	// minute. Default: a second.
	Backoff time.Duration
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
	// Log hears of what failed. Default: nobody.
	Log *slog.Logger
}

// Phase is how far a request is.
type Phase string

// The phases.
const (
	// Fetching: under way, or to be tried again.
	Fetching Phase = "Fetching"
	// Ready: on this machine, or as ready as it can be made before it is known where it
	// is to be.
	Ready Phase = "Ready"
	// Failed: the message says why.
	Failed Phase = "Failed"
)

// State is how a request stands.
type State struct {
	Phase Phase
	// Message says in words what is going on, or what is wrong.
	Message string
	// Data is what the job reads, once that is resolved.
	Data []v1alpha1.JobDataStatus
}

const (
	// workers is how many requests of a namespace are worked on at once.
	workers = 8
	// rememberFor is how long a request is kept that nobody asks about.
	rememberFor = time.Hour
	// lookEvery is how often it is looked whether jobs are still there.
	lookEvery = 30 * time.Second
	// tellEvery is how often progress is told.
	tellEvery = time.Second
	// longestBackoff is the longest pause between two tries.
	longestBackoff = time.Minute
)

// Reader brings data to this machine, in the background.
type Reader struct {
	o     Options
	board *notice.Board // jobs for which there is news
	todo  *notice.Board // requests to be worked on

	mu       sync.Mutex
	requests map[types.UID]*request
}

// New returns a reader; nothing is fetched until [Reader.Run].
func New(o Options) *Reader {
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Scope == nil {
		o.Scope = func(namespace string) string { return namespace }
	}
	if o.Mountable == nil {
		o.Mountable = func() error { return errNoMounts }
	}
	return &Reader{o: o, board: notice.New(), todo: notice.New(), requests: map[types.UID]*request{}}
}

// Ensure answers, without blocking, how far what a job reads is, and begins to bring
// it here if need be.
func (r *Reader) Ensure(job *v1alpha1.TrainingJob) State {
	wants := wanted(job)
	if len(wants) == 0 {
		return State{Phase: Ready}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.requests[job.UID]
	if q != nil && slices.Equal(q.wants, wants) {
		q.asked = r.o.Now()
		return q.state
	}
	if q != nil {
		q.cancel()
	}
	q = newRequest(job, wants, r.o.Now())
	r.requests[job.UID] = q
	r.todo.Post(string(job.UID))
	return q.state
}

// Changes tells for which job [Reader.Ensure] has a new answer.
func (r *Reader) Changes() <-chan string { return r.board.Changes() }

// Run works on what is asked for until ctx ends, and everything that it started.
func (r *Reader) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { r.board.Run(ctx) })
	wg.Go(func() { r.todo.Run(ctx) })
	wg.Go(func() { r.look(ctx) })
	wg.Go(func() { r.todo.Serve(ctx, workers, r.namespaceOf, func(uid string) { r.work(ctx, types.UID(uid)) }) })
	wg.Wait()
	r.mu.Lock()
	var drops []func(context.Context)
	for _, q := range r.requests {
		drops = append(drops, q.drop())
	}
	r.mu.Unlock()
	for _, drop := range drops {
		drop(context.WithoutCancel(ctx))
	}
	return nil
}

// namespaceOf is the namespace of a request; empty: it was given up.
func (r *Reader) namespaceOf(uid string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.requests[types.UID(uid)]; q != nil {
		return q.job.Namespace
	}
	return ""
}

// work sees one request through.
func (r *Reader) work(ctx context.Context, uid types.UID) {
	r.mu.Lock()
	q := r.requests[uid]
	if q == nil || q.working {
		r.mu.Unlock()
		return
	}
	q.working = true
	ctx, q.cancel = context.WithCancel(ctx)
	r.mu.Unlock()
	defer r.leave(ctx, q)
	for pause := r.o.Backoff; ; pause = min(2*pause, longestBackoff) {
		err := r.once(ctx, q)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.tell(q, Ready, "")
			return
		case final(err):
			r.o.Log.Info("data that a job reads", "job", q.job.String(), "err", err)
			r.tell(q, Failed, err.Error())
			return
		}
		r.o.Log.Warn("bringing the data of a job here", "job", q.job.String(), "err", err)
		r.tell(q, Fetching, err.Error()+"; trying again")
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// leave ends the work on a request. One that was replaced is given up.
func (r *Reader) leave(ctx context.Context, q *request) {
	q.cancel()
	drop := func(context.Context) {}
	r.mu.Lock()
	q.working = false
	if r.requests[q.uid] != q {
		drop = q.drop()
		r.todo.Post(string(q.uid)) // who took its place may have been passed by
	}
	r.mu.Unlock()
	drop(context.WithoutCancel(ctx))
}

// tell says how a request stands.
func (r *Reader) tell(q *request, phase Phase, message string) {
	r.mu.Lock()
	q.state = State{Phase: phase, Message: message, Data: q.resolved()}
	q.told = r.o.Now()
	r.mu.Unlock()
	r.board.Post(q.job.String())
}

// look gives up, now and then, what nobody asks about any more.
func (r *Reader) look(ctx context.Context) {
	turn := time.NewTicker(lookEvery)
	defer turn.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-turn.C:
			r.forget(ctx)
		}
	}
}

// forget drops requests of jobs that are gone or done, and those that were not asked
// about for long.
func (r *Reader) forget(ctx context.Context) {
	r.mu.Lock()
	all := make([]*request, 0, len(r.requests))
	for _, q := range r.requests {
		all = append(all, q)
	}
	r.mu.Unlock()
	for _, q := range all {
		if !r.over(ctx, q) {
			continue
		}
		drop := func(context.Context) {}
		r.mu.Lock()
		q.cancel()
		if r.requests[q.uid] == q {
			delete(r.requests, q.uid)
		}
		if !q.working {
			drop = q.drop()
		}
		r.mu.Unlock()
		drop(ctx)
	}
}

// over says that a request is nobody's any more.
func (r *Reader) over(ctx context.Context, q *request) bool {
	r.mu.Lock()
	old := !q.working && r.o.Now().Sub(q.asked) > rememberFor
	r.mu.Unlock()
	if old {
		return true
	}
	job := &v1alpha1.TrainingJob{}
	err := r.o.Client.Get(ctx, q.job, job)
	if client.IgnoreNotFound(err) != nil {
		return false
	}
	return err != nil || job.UID != q.uid || unneeded(job)
}

// unneeded says that a job reads nothing any more.
func unneeded(job *v1alpha1.TrainingJob) bool {
	return job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed
}

// errNone is the error of folders of commits that nobody can name.
var errNone = errors.New("it names no commit")
