package snapshot

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/announcement"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/reference"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// Loop runs passes: whenever something that matters has changed, it reads the
// cache, decides, and writes what came of it.
type Loop struct {
	options Options
	mirror  *mirror
	assumed *assumed
	lessons *dryrun.Answers
	// learn returns the cached answer of a gang's dry runs: see [dryrun.Answers.Look].
	learn func(ctx context.Context, g *v1alpha1.Gang, now time.Time) (dryrun.Answer, bool)

	// core and history are used by passes alone.
	core    *scheduling.Core
	history *history
	// begun is true once the core was shown everything; heard once it is known
	// what all that waits asks for, or hearUntil has come.
	begun     bool
	heard     bool
	hearUntil time.Time
	growth    growth
	// checked is when what the core knows was last compared with all there is.
	checked time.Time
	reasons reasons
	pace    pace
	// voice writes events about lone pods.
	voice *announcement.Voice
	// foresight learns from how forecasts came true.
	foresight foresight
	// prospects is what was said of who starts before long.
	prospects prospects
	keeping   keeping
	// quotas are what namespaces allow, and headcounts their pods.
	quotas     map[string][]scheduling.Quota
	headcounts map[string]*headcount
	// queuesTold is when the status of the queues was written last.
	queuesTold time.Time

	wake  chan struct{}
	ready chan struct{}
	// slots bound the writes in flight.
	slots *fairqueue.Slots
	// retries delay passes for the sake of objects whose writes did not hold, by UID.
	retries workqueue.TypedRateLimiter[types.UID]
	wg      sync.WaitGroup
	fence   *fencing.Fence
	// epoch is this loop's own, 0 until it has taken over; what carries less than
	// settled is void.
	epoch, settled atomic.Int64
	// unanswered is true once it will never be known what came of a write: no
	// successor may rely on this loop's having written all that it wrote.
	unanswered atomic.Bool
	// standDown ends the loop: another scheduler has taken over.
	standDown context.CancelCauseFunc
	// grown counts the replicas that were added, for the names of their
	// placements. It is used by passes alone.
	grown int64

	mu sync.Mutex
	// told is what each waiting gang or pod was last told, by UID.
	told map[types.UID]telling
}

// NewLoop returns a loop that does nothing until it is run.
func NewLoop(options Options) (*Loop, error) {
	o, err := options.complete()
	if err != nil {
		return nil, err
	}
	l := &Loop{
		options: o, mirror: newMirror(), core: scheduling.NewCore(scheduling.Options{}), history: newHistory(),
		wake: make(chan struct{}, 1), ready: make(chan struct{}), slots: fairqueue.NewSlots(o.Concurrency),
		told: map[types.UID]telling{}, foresight: foresight{Foresight: &scheduling.Foresight{}, asked: map[string]bool{}}, quotas: map[string][]scheduling.Quota{}, headcounts: map[string]*headcount{},
	}
	l.fence = fencing.New(fencing.Options{
		Client: o.Client, Live: o.Live, Namespace: o.Namespace, Identity: o.Identity, Alone: o.Alone,
		Duration: o.LeaseDuration, LongestRequest: o.LongestRequest, Now: o.Now,
	})
	l.retries = workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](again, lastAgain)
	l.voice = announcement.New(o.Events, o.Now)
	l.mirror.keepBook(o.DefaultScheduler)
	l.mirror.counts, l.mirror.gpus, l.mirror.signs = l.counts, o.GPUResources, o.Signs
	l.assumed = newAssumed(l.mirror.touch)
	l.lessons = dryrun.New(o.Client, reference.Checker{Reader: o.Cache, Live: o.Live, Contents: o.ReadsContents, Now: o.Now}, o.GPUResources, func(gang types.UID) {
		l.mirror.touch(gang)
		l.trigger()
	}, o.Concurrency)
	l.learn = l.lessons.Look
	return l, nil
}

// Ready is closed once the loop has its epoch, its caches are filled and it
// makes passes.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// Start is [Loop.Run], by the name that a manager calls it.
func (l *Loop) Start(ctx context.Context) error { return l.Run(ctx) }

// Run makes passes until the context ends and every write in flight has
// returned. It fails if it cannot start, and with [fencing.ErrDeposed] once
// another scheduler has taken over; it can be run once. Several loops may run
// on one API server: all but one of them wait.
func (l *Loop) Run(ctx context.Context) (err error) {
	ctx, l.standDown = context.WithCancelCause(ctx)
	defer l.standDown(nil)
	// 1. Watch, and wait until everything there is has been seen.
	if err := l.watch(ctx); err != nil {
		return err
	}
	// 2. Be the one that plans.
	defer func() { err = l.leave(ctx, err) }()
	if err := l.takeOver(ctx); err != nil {
		return err
	}
	if err := l.remember(ctx); err != nil {
		return err
	}
	// 3. Passes.
	close(l.ready)
	l.passes(ctx)
	return nil
}

// leave waits for what is under way and lets a successor begin at once. Where
// every write was answered it says so, and the successor has nothing to adopt. It
// returns why this loop stands down, if it does.
func (l *Loop) leave(ctx context.Context, err error) error {
	l.standDown(err)
	l.wg.Wait()
	l.lessons.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, fencing.ErrDeposed) {
		return cause
	}
	letGo := l.fence.HandOver
	if l.epoch.Load() == 0 || l.unanswered.Load() {
		letGo = l.fence.Release
	}
	if l.fence.Epoch() != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.fence.LongestRequest())
		defer cancel()
		if err := letGo(ctx); err != nil && !errors.Is(err, fencing.ErrDeposed) && !l.options.Alone {
			l.options.Log.Error(err, "letting a successor begin at once; it waits for the lease to run out")
		}
	}
	return err
}

// passes makes passes until the context ends.
func (l *Loop) passes(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		begin := time.Now()
		next := l.pass(ctx)
		took := time.Since(begin)
		gpus, free := l.core.Room()
		l.options.Observer.Passed(took, gpus, free)
		l.rest(ctx, took)
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(min(lookEvery, max(time.Millisecond, next.Sub(l.options.Now()))))
		}
	}
}

// rest pauses for as long as the last pass took, so that a storm of events
// leaves half of a core to others. A short pass needs no rest.
func (l *Loop) rest(ctx context.Context, took time.Duration) {
	if took < 2*time.Millisecond {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(min(took, 50*time.Millisecond)):
	}
}

// trigger asks for a pass. Requests that come during a pass become one.
func (l *Loop) trigger() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pass tells the core what changed, decides and starts the writes. It returns
// when the next pass is due even if nothing happens; zero if never.
func (l *Loop) pass(ctx context.Context) time.Time {
	now := l.options.Now()
	l.watchClock(now)
	// 1. Tell what changed.
	paused := l.tell(ctx, now)
	l.reasons.due = true
	if l.newHere(now) {
		return l.hearUntil
	}
	// 2. Decide.
	var result scheduling.Result
	if paused == "" {
		result = l.core.Decide(conversion.Instant(now))
	}
	// 3. Assume and write, in the background and side by side.
	for _, plan := range result.Plans {
		l.carryOut(ctx, plan)
		l.foresight.started(plan.UID, now)
	}
	l.resize(ctx, result)
	for _, e := range result.Evictions {
		l.evict(ctx, l.mirror.gang(types.UID(e.UID)), e)
	}
	l.observe(result, now)
	// 4. Say why the others wait.
	next := l.explain(ctx, paused, now)
	if wake := l.core.Wake(conversion.Instant(now)); wake != 0 {
		next = sooner(next, time.Unix(0, int64(wake)))
	}
	// 5. Learn, when there is nothing else to do.
	l.keep(ctx, now)
	if len(result.Plans) == 0 {
		next = sooner(next, l.foresee(now))
	}
	next = sooner(next, l.lookAhead(now))
	return sooner(next, l.tellQueues(ctx, now))
}

// hearFor is for how long a scheduler that is new waits to hear what waiting
// gangs ask for.
const hearFor = 2 * time.Second

// newHere reports that the loop has just begun and has not heard yet what all
// that waits asks for: it would give to those that it heard of first, or to
// members beyond a minimum, what is due to others.
func (l *Loop) newHere(now time.Time) bool {
	if l.heard {
		return false
	}
	if l.hearUntil.IsZero() {
		l.hearUntil = now.Add(hearFor)
	}
	l.heard = !l.lessons.Asking() || !now.Before(l.hearUntil)
	return !l.heard
}

// carryOut writes a plan. Whatever comes of it, the core is told of it in the
// next pass.
func (l *Loop) carryOut(ctx context.Context, plan scheduling.Plan) {
	uid := types.UID(plan.UID)
	l.mirror.touch(uid)
	if plan.Pod {
		if p := l.mirror.pod(uid); p != nil {
			l.bind(ctx, p, plan)
		}
	} else if g := l.mirror.gang(uid); g != nil {
		l.place(ctx, g, plan)
	}
}

// sooner is the earlier of two times, of which a zero one does not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// paused is what the mark on Muster's namespace says; empty if there is none.
func paused(namespaces []corev1.Namespace) string {
	for i := range namespaces {
		if namespaces[i].Name == v1alpha1.SystemNamespace {
			return namespaces[i].Annotations[v1alpha1.AnnotationPaused]
		}
	}
	return ""
}

// priorities looks up the value of a priority class; the empty name is the
// cluster's default.
func priorities(classes []schedulingv1.PriorityClass) func(string) int32 {
	values := map[string]int32{}
	for i := range classes {
		values[classes[i].Name] = classes[i].Value
		if classes[i].GlobalDefault {
			values[""] = classes[i].Value
		}
	}
	return func(name string) int32 { return values[name] }
}

// mine reports whether an unbound pod waits for this scheduler. Alone, it answers for the pods of all.
func (l *Loop) mine(p *corev1.Pod) bool {
	return foreign(p, l.options.DefaultScheduler)
}

func foreign(p *corev1.Pod, alone bool) bool {
	return (alone || schedules(p, false)) && p.DeletionTimestamp == nil && standsFor(p) == "" && !conversion.Ended(p) && len(p.Spec.SchedulingGates) == 0
}
