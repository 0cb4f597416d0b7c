package gang

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/news"
	"github.com/muster-dev/muster/internal/startup/warning"
)

// Options are what the controller needs.
type Options struct {
	// Client reads from the informer cache and writes to the API server
	// (a manager's GetClient). Its rate limit bounds everything: give it none.
	Client client.Client
	// Live reads past the cache (a manager's GetAPIReader).
	Live client.Reader
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what no caller can. Default: discarded.
	Log logr.Logger
	// Concurrency is how many gangs are reconciled at once, most of which wait
	// for the API server. Default: 64.
	Concurrency int
	// InFlight bounds the pod writes of one gang in flight. Default: 64.
	InFlight int
	// MostCopied is how many bytes of the members' addresses each pod may have a
	// copy of; beyond it all of a gang's pods refer to one. Default: 4 KiB.
	MostCopied int
	// GPUResources are the extended resources by which GPUs are asked for, on
	// nodes that do not name theirs; the first where no node says. Default:
	// nvidia.com/gpu.
	GPUResources []corev1.ResourceName
	// Signs tell that a node is about to go. Default: [departure.Known].
	Signs departure.Signs
	// FenceNamespace is where the scheduler's epoch is kept. Default:
	// muster-system.
	FenceNamespace string
	// Location is the time zone of the times in messages. Default: local.
	Location *time.Location
}

// Controller reconciles Gangs.
type Controller struct {
	options Options

	// began is when this controller was made.
	began time.Time

	watched watched

	mu sync.Mutex
	// written are the gangs as this controller last wrote them: the cache may
	// lag behind.
	written map[types.NamespacedName]writing
	// gone are pods as they were when they were deleted, until their usage is
	// counted.
	gone map[types.NamespacedName]map[types.UID]*corev1.Pod
	// allowed are the gangs whose quota was changed and that do not know it.
	allowed map[types.NamespacedName]bool
	// valid are placements, by UID, that every later scheduler will adopt.
	valid map[types.NamespacedName]map[types.UID]bool
	// born are the pods that were made and that the cache has not shown yet,
	// by name.
	born map[types.NamespacedName]map[string]birth
	// unsaid is the news that is not written yet.
	unsaid map[types.NamespacedName]unsaid
	// news lets so much of it through each second.
	news *rate.Limiter
	// fence reads the scheduler's epoch.
	fence *fencing.Sharing
	// retries delay the gangs that are looked at again soon.
	retries workqueue.TypedRateLimiter[types.NamespacedName]
}

// version is one state of one gang.
type version struct {
	uid      types.UID
	resource string
	at       time.Time
}

// writing is a gang as this controller wrote it last.
type writing struct {
	version
	// gang is that, until the cache has shown it.
	gang *v1alpha1.Gang
}

// soon is the delay of a gang that waits for the cache to show a write, or for another
// write: a back-off from firstRetry, doubled each time, to lastRetry.
const soon time.Duration = -1

const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// undecided is the pause before a gang is looked at again of which a scheduler
// that takes over has not adopted a placement yet; it is also looked at when
// that happens.
const undecided = 200 * time.Millisecond

// New returns a controller; it does nothing until it is set up with a manager,
// or its Reconcile is called.
func New(options Options) *Controller {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log.GetSink() == nil {
		options.Log = logr.Discard()
	}
	if options.Concurrency <= 0 {
		options.Concurrency = 64
	}
	if len(options.GPUResources) == 0 {
		options.GPUResources = []corev1.ResourceName{v1alpha1.ResourceGPU}
	}
	if options.FenceNamespace == "" {
		options.FenceNamespace = v1alpha1.SystemNamespace
	}
	if options.Location == nil {
		options.Location = time.Local
	}
	if options.Signs == nil {
		options.Signs = departure.Known()
	}
	if options.InFlight <= 0 {
		options.InFlight = 64
	}
	if options.MostCopied <= 0 {
		options.MostCopied = mostCopied
	}
	return &Controller{
		options: options, began: options.Now(), written: map[types.NamespacedName]writing{},
		gone: map[types.NamespacedName]map[types.UID]*corev1.Pod{}, allowed: map[types.NamespacedName]bool{},
		valid: map[types.NamespacedName]map[types.UID]bool{}, born: map[types.NamespacedName]map[string]birth{},
		unsaid: map[types.NamespacedName]unsaid{}, news: news.New(), fence: fencing.NewSharing(options.Live, options.FenceNamespace),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry),
	}
}

// Reconcile reads one gang and all that belongs to it, decides, and writes.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// 1. Read.
	g, err := c.read(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	o, err := c.observe(ctx, req.NamespacedName, g)
	if err != nil {
		return ctrl.Result{}, err
	}
	// 2. What gangs of the same name left behind.
	if err := c.releaseStrangers(ctx, req.NamespacedName, g); err != nil {
		return ctrl.Result{}, err
	}
	if g == nil {
		c.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	// 3. A gang that could vanish under its pods must not get any.
	if g.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(g, v1alpha1.GangFinalizer) {
		if err := c.patch(ctx, g, func(g *v1alpha1.Gang) { controllerutil.AddFinalizer(g, v1alpha1.GangFinalizer) }); err != nil {
			return c.outcome(req.NamespacedName, 0, err)
		}
	}
	// 4. What was planned too late is undone; what may be is waited for.
	if len(o.late) > 0 {
		return c.outcome(req.NamespacedName, soon, c.undo(ctx, g, o.late))
	}
	if o.undecided && g.DeletionTimestamp == nil && g.Status.Outcome == "" {
		return ctrl.Result{RequeueAfter: undecided}, nil
	}
	// 5. Decide, and do it.
	seen := o
	seen.gang = c.ahead(g)
	after, err := c.apply(ctx, o, decide(seen))
	return c.outcome(req.NamespacedName, after, err)
}

// outcome maps what came of a reconciliation to what happens next: a write
// that lost a race is repeated on what the winner wrote.
func (c *Controller) outcome(key types.NamespacedName, after time.Duration, err error) (ctrl.Result, error) {
	switch {
	case err == nil && after != soon:
		c.retries.Forget(key)
		return ctrl.Result{RequeueAfter: after}, nil
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: c.retries.When(key)}, nil
	}
	return ctrl.Result{}, err
}

// read returns the gang, at least as new as this controller last wrote it, or
// nil if it is no more.
func (c *Controller) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.Gang, error) {
	g := &v1alpha1.Gang{}
	err := c.options.Client.Get(ctx, key, g)
	if err == nil {
		g = c.newer(g)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading gang %s: %w", key, err)
	}
	return g, nil
}

// newer returns the gang as this controller last wrote it, if the cache lags
// behind that.
func (c *Controller) newer(g *v1alpha1.Gang) *v1alpha1.Gang {
	key := client.ObjectKeyFromObject(g)
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.written[key]
	if last.gang == nil || last.uid != g.UID {
		return g
	}
	order, err := resourceversion.CompareResourceVersion(g.ResourceVersion, last.resource)
	if err != nil || order < 0 {
		return last.gang.DeepCopy()
	}
	c.written[key] = writing{version: last.version}
	return g
}

// observe gathers what belongs to the gang.
func (c *Controller) observe(ctx context.Context, key types.NamespacedName, g *v1alpha1.Gang) (observed, error) {
	if g == nil {
		return observed{}, nil
	}
	o := observed{gang: g, now: c.options.Now(), began: c.began, location: c.options.Location}
	o.events = func(p *corev1.Pod) []corev1.Event { return warning.Of(ctx, c.options.Client, p) }
	pods, err := podsOf(ctx, c.options.Client, cached(g.Name), g.Namespace, g.Name, g.UID)
	if err != nil {
		return o, err
	}
	o.pods = pods
	placements, err := placementsOf(ctx, c.options.Client, cached(g.Name), g.Namespace, g.Name)
	if err != nil {
		return o, err
	}
	if placements, err = c.judge(ctx, key, &o, placements); err != nil {
		return o, err
	}
	o.placement, o.extensions = newest(placements, g.UID), extending(placements, g.UID)
	if holds(g) && (o.placement == nil || o.placement.Spec.Attempt < g.Status.Attempt) || o.strayed() {
		// The gang knows a placement that the cache does not show.
		if placements, err = placementsOf(ctx, c.options.Live, live(g.Name), g.Namespace, g.Name); err != nil {
			return o, err
		}
		if placements, err = c.judge(ctx, key, &o, placements); err != nil {
			return o, err
		}
		o.placement, o.extensions = newest(placements, g.UID), extending(placements, g.UID)
	}
	o.gone, o.allowed = c.tombstones(key, g.UID), c.isAllowed(key)
	o.node = func(name string) stands { return c.standing(ctx, name) }
	return o, nil
}

// node reads a node from the cache, not to be changed; nil if there is none.
func (c *Controller) node(ctx context.Context, name string) *corev1.Node {
	n := &corev1.Node{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Name: name}, n, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return n
}

// apply does what was decided, in the order that a crash may interrupt.
func (c *Controller) apply(ctx context.Context, o observed, d decision) (time.Duration, error) {
	g := o.gang
	status := d.status
	// 1. Make what is missing: it is journalled already.
	missing, wait := c.unborn(o, d.create)
	if wait > 0 && (d.after == 0 || wait < d.after) {
		d.after = wait
	}
	made := c.create(ctx, o, &status, missing)
	refineStatus(o, &status, made)
	// 2. Give back: only what an earlier, durable decision ended.
	released := false
	if d.release {
		held, empty, err := c.look(ctx, o, d)
		if err != nil {
			return 0, err
		}
		if released = empty; !released {
			d.after = soon // the cache lags behind; it will show what is left
		} else if err := c.free(ctx, held); err != nil {
			return 0, err
		} else {
			status = d.released
		}
	}
	// 3. The one write of the status.
	if wait, err := c.tell(ctx, o, status, released && d.gone, released || d.ends()); err != nil {
		return 0, err
	} else if wait > 0 && (d.after == 0 || wait < d.after) {
		d.after = wait
	}
	// 4. Remove what the status says is to go.
	if released {
		d.recall, d.drop = nil, nil
	}
	if err := c.recall(ctx, append(d.recall, made.refused...)); err != nil {
		return 0, err
	}
	if err := c.remove(ctx, d); err != nil {
		return 0, err
	}
	if gone, err := c.letGo(ctx, g, d.drop); err != nil {
		return 0, err
	} else if !gone {
		d.after = soon
	}
	// 5. Let a deleted gang go.
	if released && d.gone && controllerutil.ContainsFinalizer(g, v1alpha1.GangFinalizer) {
		err := c.patch(ctx, g, func(g *v1alpha1.Gang) { controllerutil.RemoveFinalizer(g, v1alpha1.GangFinalizer) })
		if client.IgnoreNotFound(err) != nil {
			return 0, err
		}
		return 0, nil
	}
	return d.after, errors.Join(made.transient...)
}

// tell writes the status unless it is written already, is not worth it because
// the gang goes, or is news that can wait unless it is owed now. It returns how
// long.
func (c *Controller) tell(ctx context.Context, o observed, status v1alpha1.GangStatus, goes, owed bool) (time.Duration, error) {
	switch {
	case goes, equality.Semantic.DeepEqual(o.gang.Status, status):
		c.said(client.ObjectKeyFromObject(o.gang))
	default:
		if !owed {
			if wait := c.early(o, &status); wait > 0 {
				return wait, nil
			}
		}
		if err := c.patchStatus(ctx, o.gang, status); err != nil {
			return 0, err
		}
	}
	c.counted(o)
	return 0, nil
}

// ends reports whether something is to be taken away, which no status may lag
// behind.
func (d decision) ends() bool {
	return len(d.remove)+len(d.recall)+len(d.drop) > 0
}

// patch changes a gang's metadata and notes the version written.
func (c *Controller) patch(ctx context.Context, g *v1alpha1.Gang, change func(*v1alpha1.Gang)) error {
	before := g.DeepCopy()
	change(g)
	err := c.options.Client.Patch(ctx, g, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("writing gang %s/%s: %w", g.Namespace, g.Name, err)
	}
	c.wrote(g)
	return nil
}

// patchStatus writes the status on top of the version that was read, and of no
// other.
func (c *Controller) patchStatus(ctx context.Context, g *v1alpha1.Gang, status v1alpha1.GangStatus) error {
	before := g.DeepCopy()
	g.Status = status
	err := c.options.Client.Status().Patch(ctx, g, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("writing the status of gang %s/%s: %w", g.Namespace, g.Name, err)
	}
	c.wrote(g)
	return nil
}

func (c *Controller) wrote(g *v1alpha1.Gang) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(g)
	c.written[key] = writing{version{g.UID, g.ResourceVersion, c.options.Now()}, g.DeepCopy()}
	delete(c.unsaid, key)
}
