package snapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// observe tells the observer what was decided.
func (l *Loop) observe(result scheduling.Result, now time.Time) {
	o := l.options.Observer
	o.Decided("plan", len(result.Plans))
	o.Decided("eviction", len(result.Evictions))
	o.Decided("growth", len(result.Growths))
	o.Decided("return", len(result.GiveBacks))
	for _, plan := range result.Plans {
		gpus := int64(0)
		for _, m := range plan.Members {
			if m.Share == (scheduling.Share{}) {
				gpus += int64(len(m.GPUs))
			}
		}
		uid := types.UID(plan.UID)
		if p := l.mirror.pod(uid); plan.Pod && p != nil {
			o.Started(v1alpha1.DefaultQueue, gpus, now.Sub(p.CreationTimestamp.Time))
		} else if g := l.mirror.gang(uid); g != nil && plan.Attempt == 1 {
			o.Started(queueOf(g), gpus, now.Sub(g.CreationTimestamp.Time))
		}
	}
}

// observeWaiting tells the observer who waits, and for what kind of reason.
func (l *Loop) observeWaiting(waiting []scheduling.Waiting) {
	now := map[[2]string]int{}
	for _, w := range waiting {
		queue := v1alpha1.DefaultQueue
		if g := l.mirror.gang(types.UID(w.UID)); g != nil {
			queue = queueOf(g)
		}
		now[[2]string{queue, string(w.Reason.Code())}]++
	}
	l.options.Observer.Waiting(now)
}

// queueOf is the queue that a gang is charged to.
func queueOf(g *v1alpha1.Gang) string {
	if g.Spec.Queue == "" {
		return v1alpha1.DefaultQueue
	}
	return g.Spec.Queue
}
