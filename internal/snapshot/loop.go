package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

// Loop runs passes: whenever something that matters has changed, it reads the
// cache, decides, and writes what came of it.
type Loop struct {
	options Options
	assumed *assumed
	lessons *lessons

	// core and history are used by passes alone.
	core    *scheduling.Core
	history *history
	// pods are those of namespaces with quotas.
	pods headcount
	// queuesTold is when the status of the queues was written last.
	queuesTold time.Time

	wake  chan struct{}
	ready chan struct{}
	slots chan struct{}
	wg    sync.WaitGroup
	fence *fencing.Fence
	// epoch is this loop's own, 0 until it has taken over.
	epoch atomic.Int64
	// standDown ends the loop: another scheduler has taken over.
	standDown context.CancelCauseFunc
	// grown counts the replicas that were added, for the names of their
	// placements. It is used by passes alone.
	grown int64

	mu sync.Mutex
	// told is what each waiting gang or pod was last told, by UID, and at
	// which of its versions.
	told map[types.UID]string
	// nodes are the nodes as last read, by name.
	nodes map[string]readNode
}

// readNode is a node as the core sees it, at one resource version.
type readNode struct {
	version string
	node    scheduling.Node
}

// NewLoop returns a loop that does nothing until it is run.
func NewLoop(options Options) (*Loop, error) {
	o, err := options.complete()
	if err != nil {
		return nil, err
	}
	l := &Loop{
		options: o, assumed: newAssumed(), core: scheduling.NewCore(scheduling.Options{}), history: newHistory(),
		wake: make(chan struct{}, 1), ready: make(chan struct{}), slots: make(chan struct{}, o.Concurrency),
		told: map[types.UID]string{}, nodes: map[string]readNode{},
	}
	l.fence = fencing.New(fencing.Options{
		Client: o.Client, Live: o.Live, Namespace: o.Namespace, Identity: o.Identity, Alone: o.Alone,
		Duration: o.LeaseDuration, LongestRequest: o.LongestRequest, Now: o.Now,
	})
	l.lessons = newLessons(o.Client, l.trigger, o.Concurrency)
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
	// 3. Passes.
	close(l.ready)
	return l.passes(ctx)
}

// leave waits for what is under way and lets a successor begin at once. It
// returns why this loop stands down, if it does.
func (l *Loop) leave(ctx context.Context, err error) error {
	l.standDown(err)
	l.wg.Wait()
	l.lessons.wait()
	if cause := context.Cause(ctx); errors.Is(cause, fencing.ErrDeposed) {
		return cause
	}
	if !l.options.Alone && l.fence.Epoch() != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.fence.LongestRequest())
		defer cancel()
		if err := l.fence.Release(ctx); err != nil && !errors.Is(err, fencing.ErrDeposed) {
			l.options.Log.Error(err, "letting a successor begin at once; it waits for the lease to run out")
		}
	}
	return err
}

// passes makes passes until the context ends.
func (l *Loop) passes(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-timer.C:
		}
		begin := time.Now()
		next, err := l.pass(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		l.rest(ctx, time.Since(begin))
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(time.Millisecond, next.Sub(l.options.Now())))
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

// pass reads, decides and starts the writes. It returns when the next pass is
// due even if nothing happens; zero if never.
func (l *Loop) pass(ctx context.Context) (time.Time, error) {
	now := l.options.Now()
	// 1. Read.
	w, err := l.read(ctx, now)
	if err != nil {
		return time.Time{}, err
	}
	s := w.snapshot(now)
	l.history.learn(w.gangs, l.core)
	// 2. Decide.
	result := l.core.Pass(s)
	// 3. Assume and write, in the background and side by side.
	byUID := find(w)
	for _, plan := range result.Plans {
		uid := types.UID(plan.UID)
		if plan.Pod {
			l.bind(ctx, byUID.pods[uid], plan)
		} else {
			l.place(ctx, byUID.gangs[uid], plan)
		}
	}
	l.resize(ctx, w, byUID, result)
	for _, e := range result.Evictions {
		l.evict(ctx, byUID.gangs[types.UID(e.UID)], e)
	}
	// 4. Say why the others wait.
	next := l.explain(ctx, result.Waiting, byUID, now)
	l.forget(byUID)
	if wake := l.core.Wake(s.Now); wake != 0 {
		next = sooner(next, time.Unix(0, int64(wake)))
	}
	return sooner(next, l.tellQueues(ctx, w.queueObjects, now)), nil
}

// sooner is the earlier of two times, of which a zero one does not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// objects finds what requests were made of.
type objects struct {
	gangs map[types.UID]*v1alpha1.Gang
	pods  map[types.UID]*corev1.Pod
}

func find(w world) objects {
	out := objects{gangs: map[types.UID]*v1alpha1.Gang{}, pods: map[types.UID]*corev1.Pod{}}
	for i := range w.gangs {
		out.gangs[w.gangs[i].UID] = &w.gangs[i]
	}
	for i := range w.pods {
		if w.pods[i].Spec.NodeName == "" {
			out.pods[w.pods[i].UID] = &w.pods[i]
		}
	}
	return out
}

// forget drops what is kept for gangs and pods that are no more.
func (l *Loop) forget(o objects) {
	alive := make(map[types.UID]bool, len(o.gangs)+len(o.pods))
	for uid := range o.gangs {
		alive[uid] = true
	}
	l.lessons.forget(alive)
	l.history.forget(alive)
	l.assumed.forget(alive)
	for uid := range o.pods {
		alive[uid] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid := range l.told {
		if !alive[uid] {
			delete(l.told, uid)
		}
	}
}

// read takes the world from the cache and lays over it what is assumed.
func (l *Loop) read(ctx context.Context, now time.Time) (world, error) {
	ahead := l.assumed.copy() // before the lists: see assumed
	w := world{
		learn:   func(g *v1alpha1.Gang) (learned, bool) { return l.lessons.look(ctx, g, now) },
		mine:    l.mine,
		highest: ahead.highest, counted: l.pods.role,
		leaving: ahead.leaving,
	}
	l.pods.begin()
	nodes, gangs, placements, pods := &corev1.NodeList{}, &v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &corev1.PodList{}
	classes, queues, namespaces := &schedulingv1.PriorityClassList{}, &v1alpha1.QueueList{}, &corev1.NamespaceList{}
	quotas := &corev1.ResourceQuotaList{}
	for _, list := range []client.ObjectList{nodes, gangs, placements, pods, classes, queues, namespaces, quotas} {
		if err := l.options.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return world{}, fmt.Errorf("listing %T from the cache: %w", list, err)
		}
	}
	w.nodes = l.readNodes(nodes.Items)
	w.gangs, w.priority = gangs.Items, priorities(classes.Items)
	w.queueObjects, w.queues, w.paused = queues.Items, manifest.Specs(queues.Items), paused(namespaces.Items)
	w.quotas = quotas.Items
	w.placements = overlayPlacements(l.counting(ctx, placements.Items), ahead.placements)
	w.pods = overlayPods(pods.Items, ahead.bindings)
	return w, nil
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

// readNodes turns nodes into the core's, decoding each version once.
func (l *Loop) readNodes(items []corev1.Node) []scheduling.Node {
	out := make([]scheduling.Node, 0, len(items))
	known := make(map[string]readNode, len(items))
	for i := range items {
		n := &items[i]
		read, ok := l.nodes[n.Name]
		if !ok || read.version != n.ResourceVersion || n.ResourceVersion == "" {
			read = readNode{version: n.ResourceVersion, node: node(n)}
		}
		known[n.Name] = read
		out = append(out, read.node)
	}
	l.nodes = known
	return out
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

func overlayPlacements(items []v1alpha1.Placement, ahead map[types.NamespacedName]*v1alpha1.Placement) []v1alpha1.Placement {
	out := make([]v1alpha1.Placement, 0, len(items)+len(ahead))
	for i := range items {
		if p := ahead[keyOf(&items[i])]; p != nil && p.Spec.GangUID == items[i].Spec.GangUID && p.Spec.Attempt == items[i].Spec.Attempt {
			delete(ahead, keyOf(&items[i]))
		}
		out = append(out, items[i])
	}
	for _, p := range ahead {
		out = append(out, *p)
	}
	return out
}

func overlayPods(items []corev1.Pod, ahead map[types.UID]*corev1.Pod) []corev1.Pod {
	out := make([]corev1.Pod, 0, len(items))
	for i := range items {
		if p := ahead[items[i].UID]; p != nil && items[i].Spec.NodeName == "" {
			out = append(out, *p)
			continue
		}
		out = append(out, items[i])
	}
	return out
}

// mine reports whether an unbound pod waits for this scheduler.
func (l *Loop) mine(p *corev1.Pod) bool {
	return foreign(p, l.options.DefaultScheduler)
}

func foreign(p *corev1.Pod, defaultToo bool) bool {
	name := p.Spec.SchedulerName
	ours := name == v1alpha1.SchedulerName || (defaultToo && name == corev1.DefaultSchedulerName)
	return ours && p.DeletionTimestamp == nil && !ended(p) && len(p.Spec.SchedulingGates) == 0
}
