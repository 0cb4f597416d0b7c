package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// followGPUs adds up for how long attempts hold GPUs with which nothing is computed:
// until every member has started, and from the decision to end them on. It only moves
// with a status that is written anyway, and what is not added yet is in that status: who
// dies in between, or is too late with it, leaves nothing out.
func (o observed) followGPUs(s *v1alpha1.GangStatus) {
	switch {
	case s.Phase == v1alpha1.GangRunning:
		o.bankGPUs(s)
	case s.Phase == v1alpha1.GangDraining && o.gang.Status.Phase != v1alpha1.GangDraining:
		o.bankGPUs(s)
		o.holdGPUs(s, o.now)
	}
}

// holdGPUs notes how many GPUs the attempt holds since a time.
func (o observed) holdGPUs(s *v1alpha1.GangStatus, since time.Time) {
	s.GPUSince, s.GPUsHeld = nil, nil
	if gpus := o.heldGPUs(s); gpus > 0 {
		s.GPUSince, s.GPUsHeld = &metav1.MicroTime{Time: since}, more(nil, gpus)
	}
}

// bankGPUs adds what the attempt has held since it was placed, or since its end was
// decided.
func (o observed) bankGPUs(s *v1alpha1.GangStatus) {
	since, held := s.GPUSince, s.GPUsHeld
	s.GPUSince, s.GPUsHeld = nil, nil
	if since == nil || held == nil {
		return
	}
	gpus := held.AsApproximateFloat64()
	if o.gang.Status.Phase == v1alpha1.GangDraining {
		s.GPUEndSeconds = more(s.GPUEndSeconds, gpus*max(0, o.now.Sub(since.Time).Seconds()))
		return
	}
	until := o.now
	if s.Phase == v1alpha1.GangRunning {
		until = o.lastStart(s)
	}
	s.GPUStartSeconds = more(s.GPUStartSeconds, gpus*max(0, until.Sub(since.Time).Seconds()))
	s.GPUStartedSeconds = more(s.GPUStartedSeconds, o.startedGPUs(s, since.Time, until))
}

// lastStart is when the last member of the attempt's own placement started, of one of
// which all have.
func (o observed) lastStart(s *v1alpha1.GangStatus) (last time.Time) {
	for _, p := range o.pods {
		if at, ok := o.startOf(s, p); ok {
			last = later(last, at)
		}
	}
	if last.IsZero() {
		return o.now
	}
	return last
}

// startedGPUs is GPUs x seconds of members that had started, from one time to another.
func (o observed) startedGPUs(s *v1alpha1.GangStatus, since, until time.Time) (sum float64) {
	for _, p := range o.pods {
		at, ok := o.startOf(s, p)
		if !ok {
			continue
		}
		to := until
		if end := memberstatus.EndTime(p, o.now); memberstatus.Ended(p) && end.Before(to) {
			to = end
		}
		sum += memberpod.GPUs(p) * max(0, to.Sub(later(at, since)).Seconds())
	}
	return sum
}

// startOf is when a pod started, if it is one of the attempt's own placement and has.
func (o observed) startOf(s *v1alpha1.GangStatus, p *corev1.Pod) (time.Time, bool) {
	at := memberstatus.StartTime(p)
	if at == nil || p.Status.Phase == corev1.PodPending || p.Status.Phase == "" || attemptOf(p) != s.Attempt || p.Annotations[v1alpha1.AnnotationExtension] != "" {
		return time.Time{}, false
	}
	return o.exactly(*at), true
}
