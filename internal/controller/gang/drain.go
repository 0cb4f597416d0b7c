package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// suspendOrDrain stops the attempt without ending the gang.
func (o observed) suspendOrDrain(d decision) decision {
	s := &d.status
	if s.Phase == v1alpha1.GangDraining {
		return o.drain(d, "")
	}
	if o.placement != nil && o.attemptIsLive() {
		s.Attempt = max(s.Attempt, o.placement.Spec.Attempt)
		o.stop(s, v1alpha1.ReasonSuspended, 0, "suspended; what runs is being stopped")
		return o.drain(d, "")
	}
	if s.Phase == v1alpha1.GangPending || s.Phase == v1alpha1.GangSuspended {
		suspended(s)
		return d
	}
	o.stop(s, v1alpha1.ReasonSuspended, 0, "suspended; what runs is being stopped")
	return o.drain(d, "")
}

// suspended is the status of a gang that is suspended and holds nothing.
func suspended(s *v1alpha1.GangStatus) {
	s.Phase, s.Reason, s.Message = v1alpha1.GangSuspended, v1alpha1.ReasonSuspended, "suspended; set suspend to false to run again"
	s.EvictedTime, s.AwaySeconds = nil, 0
}

// drain stops every member that must not stay, and asks for the release once
// none is left. The outcome is empty where the gang goes on afterwards or is
// being deleted.
//
// Which pods stay: of a gang that has ended, those that ended, so that their
// logs and status stay; of one that goes on, those of members that are done;
// of a deleted one, none.
func (o observed) drain(d decision, outcome v1alpha1.GangPhase) decision {
	s := &d.status
	deleted := o.gang.DeletionTimestamp != nil
	d.keep = func(p *corev1.Pod) bool {
		switch {
		case deleted:
			return false
		case outcome != "":
			return memberstatus.Ended(p) && o.gang.Spec.CleanUp != v1alpha1.CleanUpAll
		}
		return memberstatus.Ended(p) && slices.Contains(s.Done, nameOf(p)) && o.gang.Spec.Restart != v1alpha1.RestartScopeGang
	}
	if o.placement != nil {
		s.Attempt = max(s.Attempt, o.placement.Spec.Attempt)
	}
	d.force, d.notice = o.forced(s), o.unheardPods(o.notices())
	linger := o.gang.Spec.CleanUp == v1alpha1.CleanUpNone && outcome != "" && !deleted && !d.force
	left := 0
	for _, p := range o.pods {
		if d.keep(p) {
			continue
		}
		left++
		if !linger && (p.DeletionTimestamp == nil || d.force) {
			d.remove = append(d.remove, p)
		}
	}
	if o.gang.Status.Phase == outcome && outcome != "" && o.placement == nil && left == 0 {
		s.Phase = outcome // over, and nothing came back
		return d
	}
	s.Phase = v1alpha1.GangDraining
	// Only what was durable before may be given back.
	if left > 0 {
		return d
	}
	if o.gang.Status.Phase != v1alpha1.GangDraining && !deleted {
		d.after = 1
		return d
	}
	d.release, d.gone = true, deleted
	d.released = *s.DeepCopy()
	o.afterRelease(&d.released, outcome)
	return d
}

// afterRelease is the status once nothing is held any more.
func (o observed) afterRelease(s *v1alpha1.GangStatus, outcome v1alpha1.GangPhase) {
	o.bankGPUs(s)
	at := metav1.MicroTime{Time: o.now}
	switch {
	case outcome != "":
		s.Phase = outcome
		if s.DrainedTime == nil {
			s.DrainedTime = &at
		}
		if s.LastWorkerTime == nil && s.StartTime != nil {
			s.LastWorkerTime = &at // they were gone before their end was seen
		}
	case o.gang.Spec.Suspend:
		suspended(s)
	default:
		s.Phase = v1alpha1.GangPending
	}
	if o.gang.Spec.Restart == v1alpha1.RestartScopeGang && outcome == "" {
		s.Done = nil // all members of a collective start again together
	}
	// UIDs of pods that no longer exist need not be remembered.
	exist := map[string]bool{}
	for _, p := range o.pods {
		exist[string(p.UID)] = true
	}
	s.Counted = slices.DeleteFunc(s.Counted, func(uid string) bool { return !exist[uid] })
}
