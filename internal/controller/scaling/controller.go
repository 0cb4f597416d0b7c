package scaling

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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
	// AskBy is how GPUs are asked for: [ByResource], or by claims for devices of the
	// DeviceClass of that name. Empty: by the resource, and where drivers alone name
	// GPUs not at all, which jobs are told in an event.
	AskBy string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives what no caller can. Default: discarded.
	Log logr.Logger
}

// Controller keeps placeholders for the gangs that want nodes.
type Controller struct {
	options Options
	client  client.Client
	events  events.EventRecorder

	// refused are the gangs for which no nodes are asked; the loop's alone.
	refused map[types.UID]refusal
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
	return &Controller{options: o, refused: map[types.UID]refusal{}, since: map[types.UID]time.Time{}, idle: map[types.UID]time.Time{}, told: make(chan struct{}, 1)}
}

// SetupWithManager has the controller run with the manager, once it is elected.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.client, c.events = mgr.GetClient(), mgr.GetEventRecorder("muster-scaling")
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
	by, next, err := c.way(ctx, &o)
	if err != nil {
		return time.Time{}, err
	}
	// 2. Decide.
	d := decide(o, rules{after: c.options.After, most: c.options.Most})
	if !next.IsZero() {
		d.again(next)
	}
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
		errs = append(errs, c.create(ctx, g, by))
	}
	for i := range o.there {
		if p := &o.there[i]; unmarked(p) {
			errs = append(errs, c.mark(ctx, p))
		}
	}
	return d.next, errors.Join(errs...)
}

// way is how GPUs are asked for. Where that cannot be, gangs that want some want no
// nodes, and are told so, once, when they would have been asked for. It returns when
// the next is to be told; zero: none.
func (c *Controller) way(ctx context.Context, o *observed) (by way, next time.Time, err error) {
	var nodes corev1.NodeList
	var parts resourcev1.ResourceSliceList
	if c.options.AskBy == "" {
		for _, list := range []client.ObjectList{&nodes, &parts} {
			if err := c.client.List(ctx, list); err != nil {
				return way{}, next, fmt.Errorf("looking for how nodes name GPUs: %w", err)
			}
		}
	}
	resource := c.options.GPUResources[0]
	var can bool
	by, can = ways(c.options.AskBy, resource, nodes.Items, parts.Items)
	if can {
		clear(c.refused)
		return by, next, nil
	}
	refused := map[types.UID]refusal{}
	var rest []*v1alpha1.Gang
	for _, g := range o.wanting {
		if !wantsGPUs(g) {
			rest = append(rest, g)
			continue
		}
		r, known := c.refused[g.UID]
		if !known {
			r.since = o.now
		}
		due := r.since.Add(c.options.After)
		switch {
		case r.told:
		case o.now.Before(due):
			if next.IsZero() || due.Before(next) {
				next = due
			}
		default:
			r.told = true
			c.options.Log.Info("no nodes are asked for", "gang", client.ObjectKeyFromObject(g), "reason", refusedText(resource))
			c.events.Eventf(ofJob(g), nil, corev1.EventTypeWarning, "NoNodesAsked", "AskForNodes", "%s", refusedText(resource))
		}
		refused[g.UID] = r
	}
	c.refused, o.wanting = refused, rest
	return by, next, nil
}

// refusal is of a gang for which no nodes are asked: since when, and whether that
// was told.
type refusal struct {
	since time.Time
	told  bool
}

// ofJob is what people look at of a gang: the job that it is of, if it is of one.
func ofJob(g *v1alpha1.Gang) runtime.Object {
	owner := metav1.GetControllerOf(g)
	if owner == nil {
		return g
	}
	return &corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: g.Namespace, Name: owner.Name, UID: owner.UID}
}

// create makes a gang's placeholders. If one cannot be made none is left: part of
// a gang's nodes is of no use.
func (c *Controller) create(ctx context.Context, g *v1alpha1.Gang, by way) error {
	var made []*corev1.Pod
	for _, m := range members(g) {
		p := placeholder(g, m, c.options.Namespace, c.options.PriorityClass, by)
		if err := c.template(ctx, m, by); err != nil {
			return err
		}
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

// template makes what the claim of a member's placeholder is made from, where there
// is none.
func (c *Controller) template(ctx context.Context, m member, by way) error {
	if by.class == "" || m.role.GPUs == nil || m.role.GPUs.Sign() <= 0 {
		return nil
	}
	t := claimTemplate(c.options.Namespace, by.class, m.role.GPUs.Value())
	if err := c.client.Create(ctx, t); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the template %s of claims of placeholders: %w", t.Name, err)
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
