package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// inFull is how many waiting gangs have the whole reason in their status. The
// reasons of those behind them would change with every start and end ahead of
// them, and only name what they need.
const inFull = 32

// How much of the time reasons may take, and how often one object is told
// another one: reasons are worked out for all that waits at once, after passes
// but not after every one of them where that takes long; nothing waits longer
// than reasonsWait for them.
const (
	reasonsPart = 20
	reasonsWait = time.Second
	retellEvery = 5 * time.Second
)

// firstWord is for how long the first word on a new gang is left to its
// controller; times of creation have whole seconds.
const firstWord = time.Second

// telling is what a waiting gang or pod was told.
type telling struct {
	// said is the object's version and the words.
	said string
	at   time.Time
}

// reasons are the rounds in which all that waits is told why.
type reasons struct {
	// due is true if anything may have changed since the last round.
	due bool
	// last is when the last round was, and took how long it took.
	last time.Time
	took time.Duration
}

// explain tells every waiting gang and pod why it waits, if it does not know
// and was not told a moment ago. A round of this is put off while the last one
// is not long enough ago. It returns when it wants to be called again; zero if
// not.
func (l *Loop) explain(ctx context.Context, paused string, now time.Time) time.Time {
	if !l.reasons.due {
		return time.Time{}
	}
	if next := l.reasons.last.Add(min(reasonsWait, reasonsPart*l.reasons.took)); now.Before(next) && !now.Before(l.reasons.last) {
		return next
	}
	began := time.Now()
	waiting := l.core.Reasons(conversion.Instant(now), paused)
	l.observeWaiting(waiting)
	l.want(waiting)
	next := l.round(ctx, waiting, now)
	l.reasons = reasons{due: !next.IsZero(), last: now, took: time.Since(began)}
	return next
}

// round tells why each of these waits. It returns when those can be told that
// were told something else a moment ago.
func (l *Loop) round(ctx context.Context, waiting []scheduling.Waiting, now time.Time) time.Time {
	clock := Clock(now, l.options.Location)
	var next time.Time
	for i, w := range waiting {
		if !w.Pod && l.saysItself(w) {
			continue
		}
		seen := l.seenIn(w.Namespace, w.Reason)
		text := scheduling.Coarse(seen, clock)
		if i < inFull {
			text = seen.Render(clock)
		}
		if w.Asked > 0 {
			text += "; " + scheduling.AskedText(w.Asked)
		}
		uid := types.UID(w.UID)
		if w.Pod {
			next = sooner(next, l.tellPod(ctx, l.mirror.pod(uid), w.Reason, text, now))
		} else {
			next = sooner(next, l.tellGang(ctx, l.mirror.gang(uid), string(w.Reason.Code()), text, now))
		}
	}
	return next
}

// saysItself reports whether a gang's controller writes why the gang waits, or why the last attempt
// ended.
func (l *Loop) saysItself(w scheduling.Waiting) bool {
	switch w.Reason.(type) {
	case scheduling.Suspended, scheduling.Draining:
		return true
	case scheduling.CoolingOff:
		g := l.mirror.gang(types.UID(w.UID))
		return g == nil || g.Status.Reason == "" || v1alpha1.EndsAttempt(g.Status.Reason)
	}
	return false
}

// news reports whether a text is new to an object as it was read, and notes
// that it is told. Of what was told something else a moment ago it returns when
// it may be told.
func (l *Loop) news(object client.Object, has, text string, now time.Time) (bool, time.Time) {
	uid := object.GetUID()
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.told[uid]
	if has == text {
		return false, time.Time{}
	}
	said := object.GetResourceVersion() + " " + text
	if before.said == said {
		return false, time.Time{}
	}
	if next := before.at.Add(retellEvery); known && now.Before(next) && !now.Before(before.at) {
		return false, next
	}
	l.told[uid] = telling{said: said, at: now}
	return true, time.Time{}
}

// untold makes a text news again after it could not be written.
func (l *Loop) untold(uid types.UID) {
	l.mu.Lock()
	delete(l.told, uid)
	l.mu.Unlock()
	l.mirror.touch(uid)
	l.later(uid)
}

// tellGang writes the reason into the gang's status. A gang whose pods the API
// server will never accept fails here, in its words.
func (l *Loop) tellGang(ctx context.Context, g *v1alpha1.Gang, code, text string, now time.Time) (later time.Time) {
	if g == nil {
		return later
	}
	known, _ := l.learn(ctx, g, now)
	if at := g.CreationTimestamp.Add(firstWord); g.Status.Phase == "" && !known.Invalid && now.Before(at) {
		return at // its controller is about to write; telling it then saves a conflict
	}
	news, later := l.news(g, g.Status.Reason+" "+g.Status.Message, code+" "+text, now)
	if !news {
		return later
	}
	before := g.DeepCopy()
	after := before.DeepCopy()
	after.Status.Reason, after.Status.Message = code, text
	if after.Status.Phase == "" {
		after.Status.Phase = v1alpha1.GangPending
	}
	if known.Invalid {
		at := metav1.NewTime(now)
		after.Status.Outcome, after.Status.FinishTime = v1alpha1.GangFailed, &at
	}
	l.report(ctx, g.Namespace, func() {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := l.options.Client.Status().Patch(ctx, after, patch)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			l.retries.Forget(before.UID)
		case ctx.Err() != nil:
		default:
			if !apierrors.IsConflict(err) {
				l.options.Log.Error(err, "telling a gang why it waits", "gang", g.Namespace+"/"+g.Name)
			}
			l.untold(before.UID)
		}
	})
	return later
}

// tellPod writes the reason into the pod's PodScheduled condition.
func (l *Loop) tellPod(ctx context.Context, p *corev1.Pod, reason scheduling.Reason, text string, now time.Time) (later time.Time) {
	if p == nil {
		return later
	}
	has := ""
	at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if at >= 0 {
		has = p.Status.Conditions[at].Message
	}
	news, later := l.news(p, has, text, now)
	if !news {
		return later
	}
	before := p.DeepCopy()
	after := before.DeepCopy()
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: text, LastTransitionTime: metav1.NewTime(now),
	}
	if at >= 0 {
		after.Status.Conditions[at] = condition
	} else {
		after.Status.Conditions = append(after.Status.Conditions, condition)
	}
	l.report(ctx, p.Namespace, func() {
		l.voice.Waits(before, string(reason.Code()), text)
		err := l.options.Client.Status().Patch(ctx, after, client.StrategicMergeFrom(before))
		if err == nil || apierrors.IsNotFound(err) {
			l.retries.Forget(before.UID)
		} else if ctx.Err() == nil {
			l.options.Log.Error(err, "telling a pod why it waits", "pod", p.Namespace+"/"+p.Name)
			l.untold(before.UID)
		}
	})
	return later
}

// Take returns a Snapshot from lists made now, for whoever explains or shows
// the state without running the loop. Pods of default-scheduler count as
// waiting too.
func Take(ctx context.Context, r client.Reader, now time.Time) (scheduling.Snapshot, error) {
	nodes, gangs, placements, pods := &corev1.NodeList{}, &v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &corev1.PodList{}
	classes, queues, namespaces := &schedulingv1.PriorityClassList{}, &v1alpha1.QueueList{}, &corev1.NamespaceList{}
	quotas, claims, volumes := &corev1.ResourceQuotaList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}
	parts, given := &resourcev1.ResourceSliceList{}, &resourcev1.ResourceClaimList{}
	for _, list := range []client.ObjectList{nodes, gangs, placements, pods, classes, queues, namespaces, quotas, claims, volumes, parts, given} {
		// What a cache has is not copied: conversion changes nothing.
		if err := r.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return scheduling.Snapshot{}, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	gpus := conversion.GPUResourcesOf(namespaces.Items)
	w := world{
		gpus:  gpus,
		gangs: gangs.Items, placements: placements.Items, pods: pods.Items, priority: priorities(classes.Items),
		queues: manifest.Specs(queues.Items), paused: paused(namespaces.Items),
		quotas: quotas.Items, counted: gpus.PodRole,
		mine:  func(p *corev1.Pod) bool { return schedules(p, true) && foreign(p, true) },
		learn: func(g *v1alpha1.Gang) (dryrun.Answer, bool) { return dryrun.AsTold(gpus, g), true },
	}
	of := byNode(parts.Items)
	signs := conversion.Signs(namespaces.Items)
	book := bookOf(nodes.Items, pods.Items, of, given.Items)
	_, w.claims = book.Take(true)
	w.byClaims = book.Gives()
	for i := range given.Items {
		w.given = append(w.given, &given.Items[i])
	}
	w.asked = map[types.UID]int32{}
	for i := range pods.Items {
		if gang := standsFor(&pods.Items[i]); gang != "" {
			w.asked[gang]++
		}
	}
	w.anchors = newAnchors()
	for i := range claims.Items {
		w.anchors.claim(client.ObjectKeyFromObject(&claims.Items[i]), &claims.Items[i])
	}
	for i := range volumes.Items {
		w.anchors.volume(volumes.Items[i].Name, &volumes.Items[i])
	}
	for i := range nodes.Items {
		w.nodes = append(w.nodes, gpus.StayingNode(&nodes.Items[i], signs, of[nodes.Items[i].Name]...))
	}
	s := w.snapshot(now)
	s.Usage = memories(queues.Items)
	learned, err := recall(ctx, r, v1alpha1.SystemNamespace)
	if err != nil {
		return scheduling.Snapshot{}, err
	}
	s.Calibration, s.Mix, s.Users = learned.calibration, learned.mix, learned.users
	for _, g := range newHistory().news(w.gangs) {
		s.Ended = append(s.Ended, scheduling.Ended{Evidence: evidence(g), Ran: estimate.Span(g.Status.RanSeconds) * estimate.Second})
	}
	return s, nil
}
