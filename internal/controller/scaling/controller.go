package scaling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Options are what the controller needs.
type Options struct {
	// On has nodes asked for. Otherwise what was asked for before is taken back.
	On bool
	// After is for how long a gang has to want nodes before they are asked for.
	// Default: 30 s.
	After time.Duration
	// Most is how many placeholders there may be at once. A gang with more members
	// than are left gets none. Default: 1000.
	Most int
	// Namespace is where placeholders are. Default: muster-system.
	Namespace string
	// PriorityClass is that of placeholders; it must not be below -10, under which
	// Cluster Autoscaler makes no nodes. Empty: the cluster's default.
	PriorityClass string
	// GPUResources are the extended resources that count GPUs; the first is asked
	// for. Default: nvidia.com/gpu.
	GPUResources []corev1.ResourceName
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what no caller can. Default: discarded.
	Log logr.Logger
}

// Controller keeps placeholders for the gangs that want nodes.
type Controller struct {
	options Options
	client  client.Client

	// since and idle are as in observed; the loop's alone.
	since, idle map[types.UID]time.Time

	told chan struct{}
	mu   sync.Mutex
	// waiting and wanting are what it was told last.
	waiting, wanting []*v1alpha1.Gang
	// heard is false until it was told anything.
	heard bool
}

// again is the pause after something could not be written.
const again = 5 * time.Second

// New returns a controller, which does nothing until it is set up.
func New(o Options) *Controller {
	if o.After <= 0 {
		o.After = 30 * time.Second
	}
	if o.Most <= 0 {
		o.Most = 1000
	}
	if o.Namespace == "" {
		o.Namespace = v1alpha1.SystemNamespace
	}
	if len(o.GPUResources) == 0 {
		o.GPUResources = []corev1.ResourceName{v1alpha1.ResourceGPU}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	return &Controller{options: o, since: map[types.UID]time.Time{}, idle: map[types.UID]time.Time{}, told: make(chan struct{}, 1)}
}

// SetupWithManager has the controller run with the manager, once it is elected.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.client = mgr.GetClient()
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("setting up what asks for nodes: %w", err)
	}
	return nil
}

// Tell says which gangs wait, and which of them would start if nodes came, in
// their order. It does not block; the gangs are not changed.
func (c *Controller) Tell(waiting, wanting []*v1alpha1.Gang) {
	c.mu.Lock()
	c.waiting, c.wanting, c.heard = waiting, wanting, true
	c.mu.Unlock()
	select {
	case c.told <- struct{}{}:
	default:
	}
}

// Start keeps placeholders until the context ends. They stay when it does: whoever
// comes after finds them.
func (c *Controller) Start(ctx context.Context) error {
	if !c.options.On {
		c.Tell(nil, nil) // nobody wants anything
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.told:
		case <-timer.C:
		}
		next, err := c.round(ctx)
		if err != nil && ctx.Err() == nil {
			c.options.Log.Error(err, "asking for nodes")
			next = c.options.Now().Add(again)
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(time.Millisecond, next.Sub(c.options.Now())))
		}
	}
}

// round looks once, and does what is to be done. It returns when to look again;
// zero: when told.
func (c *Controller) round(ctx context.Context) (time.Time, error) {
	// 1. Look.
	o := observed{since: c.since, idle: c.idle, now: c.options.Now()}
	c.mu.Lock()
	o.waiting, o.wanting = c.waiting, c.wanting
	heard := c.heard
	c.mu.Unlock()
	if !heard {
		return time.Time{}, nil
	}
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, client.InNamespace(c.options.Namespace), client.HasLabels{v1alpha1.LabelPlaceholder}); err != nil {
		return time.Time{}, fmt.Errorf("listing the placeholders: %w", err)
	}
	o.there = pods.Items
	// 2. Decide.
	d := decide(o, rules{after: c.options.After, most: c.options.Most})
	// 3. Write.
	var errs []error
	for i := range d.remove {
		p := &d.remove[i]
		err := c.client.Delete(ctx, p, client.Preconditions{UID: &p.UID}, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting placeholder %s: %w", p.Name, err))
		}
	}
	for _, g := range d.create {
		errs = append(errs, c.create(ctx, g))
	}
	for i := range o.there {
		if p := &o.there[i]; unmarked(p) {
			errs = append(errs, c.mark(ctx, p))
		}
	}
	return d.next, errors.Join(errs...)
}

// create makes a gang's placeholders. If one cannot be made none is left: part of
// a gang's nodes is of no use.
func (c *Controller) create(ctx context.Context, g *v1alpha1.Gang) error {
	var made []*corev1.Pod
	for _, m := range members(g) {
		p := placeholder(g, m, c.options.Namespace, c.options.PriorityClass, c.options.GPUResources[0])
		err := c.client.Create(ctx, p)
		if apierrors.IsAlreadyExists(err) {
			continue // the cache will show it
		}
		if err != nil {
			for _, p := range made {
				_ = c.client.Delete(ctx, p, client.GracePeriodSeconds(0)) // what stays is removed once the gang waits no more
			}
			return fmt.Errorf("making placeholder %s for gang %s/%s: %w", p.Name, g.Namespace, g.Name, err)
		}
		made = append(made, p)
		if err := c.mark(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// mark says of a placeholder that it finds no node.
func (c *Controller) mark(ctx context.Context, p *corev1.Pod) error {
	before := p.DeepCopy()
	after := before.DeepCopy()
	after.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message:            "it asks for a node for a member of " + p.Annotations[annotationFor] + ", which waits for all its nodes",
		LastTransitionTime: metav1.NewTime(c.options.Now()),
	}}
	err := c.client.Status().Patch(ctx, after, client.StrategicMergeFrom(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking placeholder %s: %w", p.Name, err)
	}
	return nil
}
