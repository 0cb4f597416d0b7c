package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

// inFull is how many waiting gangs have the whole reason in their status. The
// reasons of those behind them would change with every start and end ahead of
// them, and only name what they need.
const inFull = 32

// explain tells every waiting gang and pod why it waits, if it does not know.
// It returns when the first of those that cool off is due.
func (l *Loop) explain(ctx context.Context, waiting []scheduling.Waiting, o objects, now time.Time) time.Time {
	clock := Clock(now, l.options.Location)
	var next scheduling.Instant
	for i, w := range waiting {
		text := scheduling.Coarse(w.Reason, clock)
		if i < inFull {
			text = w.Reason.Render(clock)
		}
		uid := types.UID(w.UID)
		if w.Pod {
			l.tellPod(ctx, o.pods[uid], text)
			continue
		}
		switch r := w.Reason.(type) {
		case scheduling.Suspended, scheduling.Draining:
			continue // the gang's controller says so itself
		case scheduling.CoolingOff:
			if next == 0 || r.Until < next {
				next = r.Until
			}
			continue // its message is why the last attempt failed
		}
		l.tellGang(ctx, o.gangs[uid], text, now)
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(next))
}

// news reports whether a text is new to an object as it was read, and notes
// that it is told.
func (l *Loop) news(object client.Object, has, text string) bool {
	uid := object.GetUID()
	l.mu.Lock()
	defer l.mu.Unlock()
	if has == text {
		delete(l.told, uid)
		return false
	}
	said := object.GetResourceVersion() + " " + text
	if l.told[uid] == said {
		return false
	}
	l.told[uid] = said
	return true
}

// untold makes a text news again after it could not be written.
func (l *Loop) untold(uid types.UID) {
	l.mu.Lock()
	delete(l.told, uid)
	l.mu.Unlock()
	l.later()
}

// tellGang writes the reason into the gang's status. A gang whose pods the API
// server will never accept fails here, in its words.
func (l *Loop) tellGang(ctx context.Context, g *v1alpha1.Gang, text string, now time.Time) {
	known, _ := l.lessons.look(ctx, g, now)
	if g.Status.Phase == "" && !known.invalid {
		return // its controller is about to write; telling it then saves a conflict
	}
	if !l.news(g, g.Status.Message, text) {
		return
	}
	before := g.DeepCopy()
	after := before.DeepCopy()
	after.Status.Message = text
	if known.invalid {
		at := metav1.NewTime(now)
		after.Status.Outcome, after.Status.FinishTime = v1alpha1.GangFailed, &at
	}
	l.background(ctx, func() {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err := l.options.Client.Status().Patch(ctx, after, patch)
		switch {
		case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
		default:
			if !apierrors.IsConflict(err) {
				l.options.Log.Error(err, "telling a gang why it waits", "gang", g.Namespace+"/"+g.Name)
			}
			l.untold(before.UID)
		}
	})
}

// tellPod writes the reason into the pod's PodScheduled condition.
func (l *Loop) tellPod(ctx context.Context, p *corev1.Pod, text string) {
	has := ""
	at := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if at >= 0 {
		has = p.Status.Conditions[at].Message
	}
	if !l.news(p, has, text) {
		return
	}
	before := p.DeepCopy()
	after := before.DeepCopy()
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: text, LastTransitionTime: metav1.NewTime(l.options.Now()),
	}
	if at >= 0 {
		after.Status.Conditions[at] = condition
	} else {
		after.Status.Conditions = append(after.Status.Conditions, condition)
	}
	l.background(ctx, func() {
		err := l.options.Client.Status().Patch(ctx, after, client.StrategicMergeFrom(before))
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			l.options.Log.Error(err, "telling a pod why it waits", "pod", p.Namespace+"/"+p.Name)
			l.untold(before.UID)
		}
	})
}

// Take returns a Snapshot from lists made now, for whoever explains or shows
// the state without running the loop. Pods of default-scheduler count as
// waiting too.
func Take(ctx context.Context, r client.Reader, now time.Time) (scheduling.Snapshot, error) {
	nodes, gangs, placements, pods := &corev1.NodeList{}, &v1alpha1.GangList{}, &v1alpha1.PlacementList{}, &corev1.PodList{}
	classes, queues, namespaces := &schedulingv1.PriorityClassList{}, &v1alpha1.QueueList{}, &corev1.NamespaceList{}
	quotas := &corev1.ResourceQuotaList{}
	for _, list := range []client.ObjectList{nodes, gangs, placements, pods, classes, queues, namespaces, quotas} {
		if err := r.List(ctx, list); err != nil {
			return scheduling.Snapshot{}, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	w := world{
		gangs: gangs.Items, placements: placements.Items, pods: pods.Items, priority: priorities(classes.Items),
		queues: manifest.Specs(queues.Items), paused: paused(namespaces.Items),
		quotas: quotas.Items, counted: podRole,
		mine: func(p *corev1.Pod) bool { return foreign(p, true) },
		learn: func(g *v1alpha1.Gang) (learned, bool) {
			var out learned
			for i := range g.Spec.Roles {
				r := &g.Spec.Roles[i]
				role, problem := tiedRole(g, r, &sample(g, r).Spec)
				out.roles = append(out.roles, role)
				if out.unsupported == "" {
					out.unsupported = problem
				}
			}
			return out, true
		},
	}
	for i := range nodes.Items {
		w.nodes = append(w.nodes, node(&nodes.Items[i]))
	}
	s := w.snapshot(now)
	for _, g := range newHistory().news(w.gangs) {
		s.Ended = append(s.Ended, scheduling.Ended{Evidence: evidence(g), Ran: estimate.Span(g.Status.RanSeconds) * estimate.Second})
	}
	return s, nil
}
