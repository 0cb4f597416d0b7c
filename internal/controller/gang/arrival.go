package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// onItsWay begins what a gang says while data is.
const onItsWay = "data: "

// readsData reports whether members of a gang name data.
func readsData(g *v1alpha1.Gang) bool {
	return slices.ContainsFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool { return memberstatus.NamesData(&r.Template.Spec) })
}

// exactly is a time of the API, which has whole seconds: who sees it at once knows
// better.
func (o observed) exactly(at metav1.Time) time.Time {
	if at.IsZero() || o.now.Sub(at.Time) < 2*time.Second {
		return o.now
	}
	return at.Time
}

// heldSince is when the attempt got its place.
func (o observed) heldSince() time.Time {
	return o.exactly(o.placement.CreationTimestamp)
}

// followData adds up for how long GPUs are held for data, once it is there on all
// nodes of the attempt's own placement, and until then says how far it is.
func (o observed) followData(s *v1alpha1.GangStatus) {
	if s.DataSince == nil {
		return
	}
	var waits []*corev1.Pod
	all, last := true, time.Time{}
	for m := range o.placement.Spec.Each() {
		if r := memberpod.Role(o.gang, m.Role); r == nil || !memberstatus.NamesData(&r.Template.Spec) || slices.Contains(s.Done, memberName(m.Role, m.Index)) {
			continue
		}
		at := slices.IndexFunc(o.pods, func(p *corev1.Pod) bool {
			return nameOf(p) == memberName(m.Role, m.Index) && attemptOf(p) == s.Attempt
		})
		if at < 0 {
			all = false
			continue
		}
		switch p, c := o.pods[at], memberstatus.Data(o.pods[at]); {
		case c != nil && c.Status == corev1.ConditionTrue:
			last = later(last, o.exactly(c.LastTransitionTime))
		case memberstatus.AwaitedData(p) != nil:
			waits, all = append(waits, p), false
		case p.Status.Phase == corev1.PodPending || p.Status.Phase == "":
			all = false
		}
	}
	if all {
		o.bankData(s, last)
	}
	if words := memberstatus.DataText(waits); words != "" {
		s.Reason, s.Message = v1alpha1.ReasonFetchingData, onItsWay+words
	} else {
		unsay(s, v1alpha1.ReasonFetchingData)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// bankData adds what the attempt has waited for data until then; zero: nobody ever
// said that it did.
func (o observed) bankData(s *v1alpha1.GangStatus, until time.Time) {
	since := s.DataSince
	s.DataSince = nil
	if until.IsZero() || since == nil {
		return
	}
	seconds := max(0, until.Sub(since.Time).Seconds())
	s.DataSeconds, s.DataGPUSeconds = more(s.DataSeconds, seconds), more(s.DataGPUSeconds, seconds*o.heldGPUs(s))
}

func more(q *resource.Quantity, seconds float64) *resource.Quantity {
	out := resource.Quantity{Format: resource.DecimalSI}
	if q != nil {
		out = q.DeepCopy()
	}
	addSeconds(&out, seconds)
	return &out
}

// heldGPUs is how many GPUs the attempt's own placement holds, parts as parts.
func (o observed) heldGPUs(s *v1alpha1.GangStatus) (gpus float64) {
	if o.placement == nil {
		return 0
	}
	for m := range o.placement.Spec.Each() {
		switch {
		case len(m.GPUs) == 0 || slices.Contains(s.Done, memberName(m.Role, m.Index)):
		case m.Share != nil:
			gpus += float64(m.Share.Milli) / memberpod.WholeMilli
		default:
			gpus += float64(len(m.GPUs))
		}
	}
	return gpus
}

// givenUpOnData adds what an attempt that ends has waited for data that never came.
func (o observed) givenUpOnData(s *v1alpha1.GangStatus) {
	if s.DataSince == nil {
		return
	}
	until := time.Time{}
	if slices.ContainsFunc(o.pods, func(p *corev1.Pod) bool { return attemptOf(p) == s.Attempt && memberstatus.Data(p) != nil }) {
		until = o.now
	}
	o.bankData(s, until)
}

// advances is when a fetch was last told to be further, of a pod whose gang says
// nothing of how long a start may take; zero: nobody told.
func (o observed) advances(p *corev1.Pod) time.Time {
	c := memberstatus.AwaitedData(p)
	if c == nil || c.Reason != string(v1alpha1.DataFetching) || o.gang.Spec.StartTimeout != nil {
		return time.Time{}
	}
	return c.LastProbeTime.Time
}

// placed notes that an attempt has its place: for data, where it reads any, and for the
// GPUs that it holds.
func (o observed) placed(s *v1alpha1.GangStatus) {
	s.DataSince = nil
	o.holdGPUs(s, o.heldSince())
	if readsData(o.gang) {
		s.DataSince = &metav1.MicroTime{Time: o.heldSince()}
	}
}
