package announcement

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
)

// The rate limits of FailedScheduling. There is one event a pod for each kind of reason, and
// another of the same pod after every, at the earliest. For all pods there are burst at once, and
// perSecond from then on. An event beyond that is written when the scheduler reports the reason
// next.
const (
	every     = time.Minute
	perSecond = 10
	burst     = 100
)

// longestNote is the API server's limit for a note, in bytes.
const longestNote = 1024

// Voice writes the events. The zero Voice, and nil, writes none.
type Voice struct {
	recorder events.EventRecorder
	now      func() time.Time

	mu sync.Mutex
	// said holds the last event of each pod that waits.
	said map[types.UID]saying
	// left are the events that may be written at once, as of the time since.
	left  float64
	since time.Time
}

// saying is the kind of a reason, and when an event told it.
type saying struct {
	kind string
	at   time.Time
}

// New returns a Voice that writes by a recorder; nil: it writes nothing.
func New(recorder events.EventRecorder, now func() time.Time) *Voice {
	if recorder == nil {
		return nil
	}
	return &Voice{recorder: recorder, now: now, said: map[types.UID]saying{}, left: burst, since: now()}
}

// Bound writes that a pod was bound to a node.
func (v *Voice) Bound(p *corev1.Pod, node string) {
	if v == nil {
		return
	}
	v.Forget(p.UID)
	v.recorder.Eventf(p, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %s/%s to %s", p.Namespace, p.Name, node)
}

// Waits writes why a pod waits, if the kind of the reason is new and the rate limits allow it.
func (v *Voice) Waits(p *corev1.Pod, kind, why string) {
	if v == nil || !v.may(p.UID, kind) {
		return
	}
	if len(why) > longestNote {
		why = strings.ToValidUTF8(why[:longestNote-3], "") + "..."
	}
	v.recorder.Eventf(p, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", why)
}

// may reports whether an event of a pod may be written now, and counts it.
func (v *Voice) may(pod types.UID, kind string) bool {
	now := v.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	last, before := v.said[pod]
	if before && (last.kind == kind || now.Sub(last.at) < every && !now.Before(last.at)) {
		return false
	}
	v.left = min(burst, v.left+max(0, now.Sub(v.since).Seconds())*perSecond)
	v.since = now
	if v.left < 1 {
		return false
	}
	v.left--
	v.said[pod] = saying{kind, now}
	return true
}

// Forget drops the entries of a deleted pod.
func (v *Voice) Forget(pod types.UID) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.said, pod)
}
