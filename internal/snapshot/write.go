package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

const (
	// again is the delay of the next pass after a write that did not hold. It doubles with
	// each further one of the same object, up to lastAgain.
	again     = 20 * time.Millisecond
	lastAgain = 30 * time.Second
)

// errStale is a plan for a gang that is no longer as it was planned.
var errStale = errors.New("the gang has changed since it was planned")

// The priorities of writes: a decision does not wait for reasons.
const (
	priorityOfReasons = iota
	priorityOfDecisions
)

// background writes a decision for a namespace beside the passes, a bounded number at once.
func (l *Loop) background(ctx context.Context, namespace string, write func()) {
	l.write(ctx, namespace, priorityOfDecisions, write)
}

// report writes a status beside the passes, after the decisions that wait.
func (l *Loop) report(ctx context.Context, namespace string, write func()) {
	l.write(ctx, namespace, priorityOfReasons, write)
}

func (l *Loop) write(ctx context.Context, namespace string, priority int, write func()) {
	l.wg.Go(func() {
		if l.slots.Take(ctx, namespace, priority) != nil {
			return // the loop ends
		}
		defer l.slots.Give()
		if ctx.Err() == nil {
			write()
		}
	})
}

// later asks for a pass after the back-off of an object whose write did not hold.
func (l *Loop) later(uid types.UID) { time.AfterFunc(l.retries.When(uid), l.trigger) }

// linesFrom is from how many members on those of a plan that are alike share an entry.
// Of fewer each has its own, which costs little, and which a manager from before
// 2026-11-26 can read as well.
const linesFrom = 64

// placementOf is the journal entry of a plan.
func placementOf(g *v1alpha1.Gang, plan scheduling.Plan, epoch int64, now time.Time) *v1alpha1.Placement {
	yes := true
	p := &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.Namespace, Name: fmt.Sprintf("%s-%d", g.Name, plan.Attempt),
			CreationTimestamp: metav1.NewTime(now),
			Labels:            map[string]string{v1alpha1.LabelGang: g.Name, v1alpha1.LabelAttempt: strconv.Itoa(int(plan.Attempt))},
			Finalizers:        []string{v1alpha1.GangFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Gang", Name: g.Name, UID: g.UID,
				Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: v1alpha1.PlacementSpec{Gang: g.Name, GangUID: g.UID, Attempt: plan.Attempt, Epoch: epoch},
	}
	if job := g.Labels[v1alpha1.LabelJob]; job != "" {
		p.Labels[v1alpha1.LabelJob] = job
	}
	add := func(m v1alpha1.PlacedMember) { p.Spec.Members = append(p.Spec.Members, m) }
	if len(plan.Members) >= linesFrom {
		add = p.Spec.Add
	}
	rows := map[string]int32{}
	for _, m := range plan.Members {
		row, ok := rows[m.Node]
		if !ok {
			row = int32(len(p.Spec.Nodes))
			rows[m.Node] = row
			p.Spec.Nodes = append(p.Spec.Nodes, m.Node)
		}
		port := m.Port
		if port == 0 {
			port = v1alpha1.DefaultPort
		}
		add(v1alpha1.PlacedMember{Role: m.Role, Index: m.Index, Node: row, GPUs: m.GPUs, Share: conversion.JournalShare(m.Share), Port: port})
	}
	return p
}

// place journals a plan.
func (l *Loop) place(ctx context.Context, g *v1alpha1.Gang, plan scheduling.Plan) {
	l.journal(ctx, g, placementOf(g, plan, l.epoch.Load(), l.options.Now()))
}

// journal writes a Placement. It is assumed at once and taken back if the API
// server definitely refuses it, or the gang does not want it any more.
func (l *Loop) journal(ctx context.Context, g *v1alpha1.Gang, p *v1alpha1.Placement) {
	l.assumed.placement(p)
	generation := g.Generation
	l.background(ctx, g.Namespace, func() {
		err := l.createPlacement(ctx, p.DeepCopy(), generation)
		if err == nil {
			l.retries.Forget(p.Spec.GangUID)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		l.assumed.noPlacement(p)
		l.later(p.Spec.GangUID)
		if !errors.Is(err, errStale) {
			l.options.Log.Error(err, "the plan was not journalled and is made again", "placement", p.Namespace+"/"+p.Name)
		}
	})
}

// createPlacement writes the journal entry if the gang, read past the cache,
// is still the one that was planned. An error that leaves open whether the
// write happened is answered with the same write again, whatever the gang wants
// by then: another plan must not be made while the first may still appear, and
// a Placement that nobody wants any more is given back in the ordinary way.
func (l *Loop) createPlacement(ctx context.Context, p *v1alpha1.Placement, generation int64) (err error) {
	unclear := false
	defer func() { l.note(unclear && err != nil) }()
	for wait := again; ; wait = min(2*wait, time.Second) {
		err = l.mayWrite(ctx)
		if err == nil && fencing.Drops(unclear) {
			err = l.fresh(ctx, p, generation)
		}
		sent := err == nil
		if sent {
			err = l.bounded(ctx, func(ctx context.Context) error { return l.options.Client.Create(ctx, p.DeepCopy()) })
		}
		switch {
		case err == nil, errors.Is(err, errStale), errors.Is(err, fencing.ErrDeposed):
			return err
		case apierrors.IsAlreadyExists(err):
			return l.adopt(ctx, p)
		case hopeless(err), definite(err) && fencing.Drops(unclear):
			return fmt.Errorf("creating placement %s/%s: %w", p.Namespace, p.Name, err)
		}
		unclear = unclear || sent && !definite(err)
		l.options.Log.Error(err, "writing a placement; it is written again", "placement", p.Namespace+"/"+p.Name)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// hopeless reports whether the API server refuses what was sent for what it
// is: then no earlier request of the same can have happened either.
func hopeless(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// definite reports whether the API server itself said no: then the write has
// not happened and will not.
func definite(err error) bool {
	return hopeless(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsUnauthorized(err)
}

// note remembers a write of which it will never be known what came of it.
func (l *Loop) note(unanswered bool) {
	if unanswered {
		l.unanswered.Store(true)
	}
}

// bounded gives a write no more time than a successor waits. A loop that ends
// waits for the answer to what it has begun.
func (l *Loop) bounded(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.fence.LongestRequest())
	defer cancel()
	return write(ctx)
}

// fresh checks with the API server that the gang still wants this attempt.
func (l *Loop) fresh(ctx context.Context, p *v1alpha1.Placement, generation int64) error {
	g := &v1alpha1.Gang{}
	err := l.options.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.Gang}, g)
	switch {
	case apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return err
	case p.Spec.Extends != "":
		return freshGrowth(g, p, generation)
	case g.UID != p.Spec.GangUID, g.DeletionTimestamp != nil, g.Generation != generation,
		g.Status.Attempt+1 != p.Spec.Attempt, g.Status.Outcome != "", draining(g):
		return errStale
	}
	return nil
}

// adopt takes the Placement that exists under this name for the plan if this
// loop wrote it for the same gang: an earlier write arrived after all. One that
// another scheduler wrote too late is undone first, and the gang planned again.
func (l *Loop) adopt(ctx context.Context, p *v1alpha1.Placement) error {
	have := &v1alpha1.Placement{}
	if err := l.options.Live.Get(ctx, keyOf(p), have); err != nil {
		return fmt.Errorf("reading placement %s/%s, which exists already: %w", p.Namespace, p.Name, err)
	}
	if have.Spec.GangUID != p.Spec.GangUID || !fencing.Mine(l.epoch.Load(), fencing.Of(have)) {
		return errStale
	}
	l.assumed.placement(have)
	// The watch may have shown it before it was assumed; a pass finds out.
	if err := l.options.Cache.Get(ctx, keyOf(p), &v1alpha1.Placement{}); err == nil {
		l.assumed.noPlacement(have)
	}
	l.trigger()
	return nil
}

// bind binds a foreign pod. It is assumed at once and taken back if the API
// server definitely refuses it.
func (l *Loop) bind(ctx context.Context, p *corev1.Pod, plan scheduling.Plan) {
	to := plan.Members[0]
	bound := p.DeepCopy()
	bound.Spec.NodeName = to.Node
	if bound.Annotations == nil {
		bound.Annotations = map[string]string{}
	}
	annotations := map[string]string{v1alpha1.AnnotationEpoch: fencing.Text(l.epoch.Load())}
	if len(to.GPUs) > 0 {
		annotations[v1alpha1.AnnotationGPUs] = strings.Join(to.GPUs, ",")
	}
	if to.Share != (scheduling.Share{}) {
		annotations[v1alpha1.AnnotationGPUShare] = conversion.ShareText(to.Share)
	}
	for k, v := range annotations {
		bound.Annotations[k] = v
	}
	l.assumed.binding(bound)
	binding := &corev1.Binding{
		// The version is a precondition: whoever takes over stamps the pod, and
		// a binding that comes later fails.
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: to.Node},
	}
	gpus := l.mirror.gpusAt(to.Node, to.GPUs)
	l.background(ctx, p.Namespace, func() {
		var err error
		if len(gpus) > 0 {
			binding.ResourceVersion, err = l.claim(ctx, bound, gpus, conversion.JournalShare(to.Share))
			l.note(err != nil && !definite(err))
		}
		if err == nil {
			err = l.createBinding(ctx, bound, binding)
		}
		if err == nil {
			l.voice.Bound(p, to.Node)
			l.retries.Forget(p.UID)
		} else if ctx.Err() == nil {
			l.assumed.noBinding(p.UID)
			l.later(p.UID)
			if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, fencing.ErrDeposed) {
				l.options.Log.Error(err, "the pod was not bound and is planned again", "pod", plan.String())
			}
		}
	})
}

// createBinding writes the binding until the API server has said yes or no. A
// conflict after an unclear answer is looked into: the pod may have been
// bound as it was meant to.
func (l *Loop) createBinding(ctx context.Context, p *corev1.Pod, binding *corev1.Binding) (err error) {
	unclear := false
	defer func() { l.note(unclear && err != nil) }()
	for wait := again; ; wait = min(2*wait, time.Second) {
		err = l.mayWrite(ctx) // after the pod was seen: see package fencing
		if err == nil {
			err = l.bounded(ctx, func(ctx context.Context) error {
				return l.options.Client.SubResource("binding").Create(ctx, p.DeepCopy(), binding.DeepCopy())
			})
			unclear = unclear || err != nil && !definite(err)
		}
		if err == nil || errors.Is(err, fencing.ErrDeposed) {
			return err
		}
		if apierrors.IsConflict(err) {
			have := &corev1.Pod{}
			if e := l.options.Live.Get(ctx, client.ObjectKeyFromObject(p), have); e == nil && have.UID == p.UID &&
				have.Spec.NodeName == p.Spec.NodeName && have.Annotations[v1alpha1.AnnotationGPUs] == p.Annotations[v1alpha1.AnnotationGPUs] &&
				have.Annotations[v1alpha1.AnnotationGPUShare] == p.Annotations[v1alpha1.AnnotationGPUShare] {
				return nil
			}
		}
		if definite(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// evict orders a gang's attempt to end, so that another has room. The order is
// an annotation: the gang's controller obeys it once.
func (l *Loop) evict(ctx context.Context, g *v1alpha1.Gang, e scheduling.Eviction) {
	if g == nil {
		return
	}
	// The UID in the patch is a precondition: a new gang of that name is spared.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": g.UID, "annotations": map[string]string{v1alpha1.AnnotationEvict: fmt.Sprintf("%d %s", e.Attempt, l.forWhom(g.Namespace, e.For))},
	}})
	if err != nil {
		l.options.Log.Error(err, "writing the order to make room", "gang", e.String())
		return
	}
	target := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}
	l.background(ctx, g.Namespace, func() {
		err := l.mayWrite(ctx)
		if err == nil {
			err = l.options.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
		}
		if err != nil && !errors.Is(err, fencing.ErrDeposed) && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			l.options.Log.Error(err, "ordering a gang to make room; it is ordered again if that is still needed", "gang", e.String(), "for", e.For.String())
		}
	})
}
