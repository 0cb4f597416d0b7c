package gang

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// followGPUs adds up for how long attempts hold GPUs with which nothing is computed:
// until every member runs, and from the decision to end them on. It only moves with a
// status that is written anyway, so that whoever dies in between has the time counted by
// the next one; only who dies between giving an attempt back and saying so leaves out
// how long that took to end.
func (o observed) followGPUs(s *v1alpha1.GangStatus) {
	switch {
	case s.Phase == v1alpha1.GangRunning:
		o.bankGPUs(s)
	case s.Phase == v1alpha1.GangDraining && o.gang.Status.Phase != v1alpha1.GangDraining:
		o.bankGPUs(s)
		if o.heldGPUs(s) > 0 {
			s.GPUSince = &metav1.MicroTime{Time: o.now}
		}
	}
}

// bankGPUs adds what the attempt has held since it was placed, or since its end was
// decided.
func (o observed) bankGPUs(s *v1alpha1.GangStatus) {
	since := s.GPUSince
	s.GPUSince = nil
	if since == nil {
		return
	}
	sum := &s.GPUStartSeconds
	if o.gang.Status.Phase == v1alpha1.GangDraining {
		sum = &s.GPUEndSeconds
	}
	*sum = more(*sum, max(0, o.now.Sub(since.Time).Seconds())*o.heldGPUs(s))
}
