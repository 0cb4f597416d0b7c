package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventrecord "k8s.io/client-go/tools/record"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/lifecycle"
)

const (
	// lookMost bounds the delay before the node retries a pod that it refused for a temporary cause.
	lookMost = time.Minute
	// elsewhereAfter is the longest wait of a pod for its GPUs. Then it fails, so that its controller
	// makes another, which the scheduler may give others: a bound pod keeps its GPUs.
	elsewhereAfter = 5 * time.Minute
)

// putOff is the state of a refused pod that the node retries. The zero value is a pod that was not
// refused.
type putOff struct {
	times  int       // refusals in a row
	since  time.Time // the first of them
	looked time.Time // the last of them
	again  time.Time // the next try
	cancel context.CancelFunc
}

// refused decides about a pod that the node refuses. Seen is the pod as the node read it; changed
// closes when another pod releases resources after that.
//
// A member of a gang fails: its gang sends the whole attempt back, with a back-off of its own.
// Every other pod stays Pending with the reason, as with a kubelet that cannot pull an image. If it
// failed, its ReplicaSet, DaemonSet or StatefulSet would create new ones at once, without end.
func (w *worker) refused(seen *corev1.Pod, r *admission.Refusal, changed <-chan struct{}) {
	if w.ending() {
		return
	}
	now, p := w.node.config.Clock.Now(), &w.putOff
	if p.times++; p.times == 1 {
		p.since = now
	}
	reason := reasonUnsupported
	if r.Passing {
		reason = reasonRefused
	}
	if w.mustFail(r.Elsewhere, now.Sub(p.since)) {
		w.fail(reason, r.Error())
		return
	}
	p.looked, p.again = now, now.Add(lookPause(p.times, r.Passing))
	for _, u := range w.units {
		if u.proc == nil && u.last == nil {
			u.wait = waiting{reason: reason, message: r.Error()}
		}
	}
	w.warn(reason, r.Error())
	if r.Passing {
		w.lookAfter(changed)
	}
	if !sameWish(seen, w.pod) {
		w.reconsider()
	}
}

// mustFail reports whether a refused pod fails now. Elsewhere: a new pod may be
// given other GPUs.
func (w *worker) mustFail(elsewhere bool, waited time.Duration) bool {
	return member(w.pod) || elsewhere && waited >= elsewhereAfter && metav1.GetControllerOf(w.pod) != nil
}

// member reports whether the pod was made for a gang. Labels do not count: the
// template of a Deployment can hold any, but no owner.
func member(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Gang" {
		return false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && group.Group == v1alpha1.GroupVersion.Group
}

// lookPause is the delay after a number of refusals in a row.
func lookPause(times int, passing bool) time.Duration {
	if passing {
		return min(lifecycle.BackOff(times+1), lookMost)
	}
	return lifecycle.BackOff(times + 1)
}

// lookAfter makes the next try earlier once changed is closed.
func (w *worker) lookAfter(changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(w.ctx)
	if w.putOff.cancel != nil {
		w.putOff.cancel()
	}
	w.putOff.cancel = cancel
	w.task(func() {
		select {
		case <-ctx.Done():
		case <-changed:
			w.post(func() {
				if soon := w.putOff.looked.Add(retryEvery); ctx.Err() == nil && soon.Before(w.putOff.again) {
					w.putOff.again = soon
				}
			})
		}
	})
}

// lookDue is the time at which the node retries a refused pod; zero: it does not, or is doing so.
func (w *worker) lookDue() time.Time {
	if w.record != nil || !w.mayPrepare() {
		return time.Time{}
	}
	return w.putOff.again
}

// sameWish reports whether two versions of a pod ask the node for the same.
func sameWish(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}

// reconsider retries at once a refused pod that was changed, such as by kubectl set image. Nothing
// of it has started.
func (w *worker) reconsider() {
	if w.record != nil || w.preparing != nil {
		return // it was admitted, or refused will see the change
	}
	wait := w.units[0].wait
	w.units = newUnits(w.pod, admission.Assign(w.pod))
	for _, u := range w.units {
		u.wait = wait
	}
	w.putOff.times, w.putOff.again = 0, time.Time{}
}

// lockHeld records that a container cannot start because a process outside
// Muster, or one that is just ending, holds the lock of its GPU.
func (w *worker) lockHeld(u *unit, message string) {
	now := w.node.config.Clock.Now() // the shim has tried for a while
	if u.lockTries++; u.lockTries == 1 {
		u.lockSince = now
	}
	message = fmt.Sprintf("container %s: a GPU is taken: %s", u.spec.Name, message)
	if u.lockTries >= lockTries && w.mustFail(true, now.Sub(u.lockSince)) {
		w.fail(reasonRefused, message)
		return
	}
	u.notBefore = now.Add(lockPause)
	if u.lockTries >= lockTries {
		u.notBefore = now.Add(lookPause(u.lockTries-lockTries+1, true))
	}
	if u.lockTries > 1 && !member(w.pod) {
		u.wait = waiting{reason: reasonRefused, message: message}
	}
	if u.lockTries == 2 || u.lockTries > lockTries {
		w.warn(reasonRefused, message)
	}
}

// warn records an event of the pod.
func (w *worker) warn(reason, message string) {
	w.log.Warn("the pod does not start", "reason", message)
	w.node.recorder.Event(w.pod, corev1.EventTypeWarning, reason, message)
}

// recordEvents makes the recorder of events. The returned function ends it. Events
// that repeat are counted in one object, and there is a limit for each pod.
func (n *Node) recordEvents(ctx context.Context) (stop func()) {
	broadcaster := eventrecord.NewBroadcaster(eventrecord.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: n.clients.Core.CoreV1().Events("")})
	n.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "muster-node", Host: n.config.Name})
	return broadcaster.Shutdown
}
