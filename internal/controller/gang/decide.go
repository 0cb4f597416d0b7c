package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
	"github.com/muster-dev/muster/internal/startup"
)

// The limits of trying again.
const (
	restartBackoff = time.Second
	refusalBackoff = 2 * time.Second
	// maxRefusals is how many attempts in a row may be refused for what may
	// pass before the gang fails. What does not pass ends it at once.
	maxRefusals = 8
	// maxForbidden is how many refusals a quota may count: its back-off is a
	// minute by then, and nodes still have tries left.
	maxForbidden = 6
)

// observed is everything a decision about one gang depends on.
type observed struct {
	gang *v1alpha1.Gang
	// placement is the gang's newest; nil if there is none.
	placement *v1alpha1.Placement
	// late are placements that a scheduler wrote after it had been replaced, or
	// that came a second time after their attempt was given back.
	late []*v1alpha1.Placement
	// undecided is true while a scheduler that takes over has not said whether
	// a placement of the gang is void.
	undecided bool
	// returned are, by UID, the extensions that came a second time after they
	// were given back.
	returned map[types.UID]bool
	// extensions are the placements of further replicas of an elastic gang, of
	// whatever attempt.
	extensions []*v1alpha1.Placement
	// pods are the gang's pods.
	pods []*corev1.Pod
	// gone are pods that were deleted since, as they last were.
	gone []*corev1.Pod
	// node is how a node stands.
	node func(name string) stands
	// allowed is true where a quota of the namespace was changed since the
	// gang was last refused.
	allowed bool
	// began is when this controller began to watch: what happened before, nobody
	// may have been there to do.
	began time.Time
	// events are the warnings of a pod; nil: none are known.
	events func(*corev1.Pod) []corev1.Event
	now    time.Time
	// location is the time zone of times in messages.
	location *time.Location
}

// decision is what is to be done, in the order of the fields.
type decision struct {
	// create are the members whose pods are to be made.
	create []place
	// release asks to give the placement back if, past the cache, no pod is
	// left but those of keep. Then released is the status, else status.
	release  bool
	keep     func(*corev1.Pod) bool
	released v1alpha1.GangStatus
	// status is to be written before anything is removed.
	status v1alpha1.GangStatus
	// remove are the pods to be deleted; force gives them no grace period, notice
	// the seconds of another than their own, nil for that.
	remove []*corev1.Pod
	force  bool
	notice func(*corev1.Pod) *int64
	// recall are extensions to be ordered back, and drop those to be let go if,
	// past the cache, they have no pod.
	recall, drop []*v1alpha1.Placement
	// gone is true once a deleted gang holds nothing more.
	gone bool
	// after is when to look again; 0: when something changes.
	after time.Duration
}

// decide is the whole policy: what to do about a gang as it is seen.
func decide(o observed) decision {
	d := o.course()
	o.shrink(&d)
	return d
}

// course decides about the attempt as a whole.
func (o observed) course() decision {
	d := decision{status: *o.gang.Status.DeepCopy()}
	s := &d.status
	if s.Phase == "" {
		s.Phase = v1alpha1.GangPending
	}
	o.forgive(s)
	// 1. Add up what has ended, each pod once.
	live := o.attemptIsLive()
	failed := o.count(s, live)
	o.countRoles(s)
	o.followProgress(s)
	if waits := s.Phase == v1alpha1.GangPending || s.Phase == v1alpha1.GangDraining; waits && o.allowed && s.Refusals > 0 {
		s.NotBefore = nil
	}

	// 2. What ends the gang, the strongest first.
	switch {
	case o.gang.DeletionTimestamp != nil:
		return o.drain(d, "")
	case s.Outcome != "":
		return o.drain(d, s.Outcome)
	case o.succeeded(s):
		o.end(s, v1alpha1.GangSucceeded, "", "")
		return o.drain(d, s.Outcome)
	case o.gang.Spec.Stop != "":
		o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonStopped, o.gang.Spec.Stop)
		return o.drain(d, s.Outcome)
	}
	// 3. What ends the attempt.
	if s.Phase == v1alpha1.GangDraining || o.gang.Spec.Suspend {
		return o.suspendOrDrain(d)
	}
	if !live {
		return o.withoutPlacement(d)
	}
	o.accept(s)
	failed = o.extras(s, failed)
	if o.leave(s) || o.stopAttempt(s, failed) || o.evict(s) || o.giveUp(s) {
		return o.drain(d, s.Outcome)
	}
	// 4. What keeps it going.
	return o.advance(d)
}

// attemptIsLive reports whether there is a placement to act on. One that the
// cache still shows after it was given back is not.
func (o observed) attemptIsLive() bool {
	if o.placement == nil {
		return false
	}
	s := o.gang.Status
	switch s.Phase {
	case "", v1alpha1.GangPending, v1alpha1.GangSuspended, v1alpha1.GangSucceeded, v1alpha1.GangFailed:
		return o.placement.Spec.Attempt > s.Attempt
	}
	return o.placement.Spec.Attempt >= s.Attempt
}

// accept takes on a new placement.
func (o observed) accept(s *v1alpha1.GangStatus) {
	if o.placement.Spec.Attempt > s.Attempt {
		o.bank(s)
		s.Attempt = o.placement.Spec.Attempt
		s.Phase = v1alpha1.GangPlanned
		s.Reason, s.Message = "", ""
		s.NotBefore = nil
		s.GivenBackUpTo = ""
		o.placed(s)
	}
}

// count adds ended pods to the sums, each once, notes which members are done,
// and returns the pods that failed in the live attempt and were not counted
// before.
func (o observed) count(s *v1alpha1.GangStatus, live bool) []*corev1.Pod {
	var failed []*corev1.Pod
	for _, p := range slices.Concat(o.pods, o.gone) {
		if !memberstatus.Ended(p) || slices.Contains(s.Counted, string(p.UID)) {
			continue
		}
		s.Counted = append(s.Counted, string(p.UID))
		u := memberstatus.Usage(p)
		addSeconds(&s.GPUSeconds, u.GPUSeconds)
		addSeconds(&s.CPUSeconds, u.CPUSeconds)
		if startup.Refused(p) {
			o.avoid(s, p.Spec.NodeName, nodeWords(p))
		}
		current := live && o.placement.Spec.Attempt == attemptOf(p) && s.Phase != v1alpha1.GangDraining && s.Outcome == ""
		if awaited(o.gang, p) && s.Outcome != v1alpha1.GangSucceeded {
			if at := memberstatus.EndTime(p, o.now); s.LastWorkerTime == nil || at.After(s.LastWorkerTime.Time) {
				s.LastWorkerTime = &metav1.MicroTime{Time: at}
			}
		}
		switch {
		case memberstatus.Finished(p) && (current || evicting(s) || o.gang.Spec.Restart != v1alpha1.RestartScopeGang) && s.Outcome == "":
			if name := nameOf(p); !slices.Contains(s.Done, name) {
				s.Done = append(s.Done, name)
			}
		case current && p.Status.Phase == corev1.PodFailed && p.DeletionTimestamp == nil:
			failed = append(failed, p)
		}
	}
	return failed
}

// countRoles counts members by role and notes the first start.
func (o observed) countRoles(s *v1alpha1.GangStatus) {
	before := s.Roles
	s.Roles = nil
	for i := range o.gang.Spec.Roles {
		r := &o.gang.Spec.Roles[i]
		c := v1alpha1.RoleStatus{Name: r.Name, Wanted: r.Replicas}
		if elastic(r) {
			c.Min = *r.MinReplicas
		}
		for k := range before {
			if before[k].Name == r.Name {
				c.Shrunk, c.GPUShare = before[k].Shrunk, before[k].GPUShare
			}
		}
		for n := range r.Replicas {
			if slices.Contains(s.Done, memberName(r.Name, n)) {
				c.Succeeded++
			}
		}
		for _, p := range o.pods {
			if p.Labels[v1alpha1.LabelRole] != r.Name || slices.Contains(s.Done, nameOf(p)) {
				continue
			}
			switch p.Status.Phase {
			case corev1.PodRunning:
				c.Running++
			case corev1.PodFailed:
				c.Failed++
			case corev1.PodSucceeded:
				c.Succeeded++
			default:
				c.Pending++
			}
		}
		c.GPUShare = cmp.Or(memberstatus.ShareText(o.pods, r.Name), c.GPUShare)
		s.Roles = append(s.Roles, c)
	}
	for _, p := range o.pods {
		if at := memberstatus.StartTime(p); at != nil && p.Status.Phase != corev1.PodPending && (s.StartTime == nil || at.Before(s.StartTime)) {
			s.StartTime = at.DeepCopy()
		}
	}
}

// succeeded reports whether every member that the gang waits for is done.
func (o observed) succeeded(s *v1alpha1.GangStatus) bool {
	for _, entry := range o.gang.Spec.DoneWhen {
		name, only, single := strings.Cut(entry, "/")
		r := memberpod.Role(o.gang, name)
		if r == nil {
			return false
		}
		if single {
			if !slices.Contains(s.Done, name+"-"+only) {
				return false
			}
			continue
		}
		for n := range r.Replicas {
			if !slices.Contains(s.Done, memberName(name, n)) {
				return false
			}
		}
	}
	return len(o.gang.Spec.DoneWhen) > 0
}

// end decides the outcome, once.
func (o observed) end(s *v1alpha1.GangStatus, outcome v1alpha1.GangPhase, reason, message string) {
	at := metav1.NewTime(o.now)
	s.Outcome, s.FinishTime, s.Reason, s.Message, s.NotBefore = outcome, &at, reason, message, nil
	s.EvictedTime = nil
	s.Phase = v1alpha1.GangDraining
}

// withoutPlacement is the life of a gang that holds nothing: it waits to be
// placed. Pods that are left without a placement are stopped.
func (o observed) withoutPlacement(d decision) decision {
	s := &d.status
	switch s.Phase {
	case v1alpha1.GangPending:
	case v1alpha1.GangSuspended:
		s.Phase, s.Reason, s.Message = v1alpha1.GangPending, "", ""
	default:
		s.Reason, s.Message = v1alpha1.ReasonPlacementDeleted, "its place on the nodes was taken away from outside; what still runs is stopped"
		s.Phase = v1alpha1.GangDraining
		return o.drain(d, "")
	}
	for _, p := range o.pods {
		if !memberstatus.Ended(p) && p.DeletionTimestamp == nil && attemptOf(p) <= s.Attempt {
			d.remove = append(d.remove, p)
		}
	}
	d.after = o.nextForgiven(s)
	return d
}

// advance makes the members that are missing and says how far the attempt is.
func (o observed) advance(d decision) decision {
	s := &d.status
	byName := map[string]*corev1.Pod{}
	for _, p := range o.pods {
		byName[nameOf(p)] = p
	}
	missing, running, exist := []place{}, map[string]int{}, 0
	places := o.places(s)
	for _, m := range places {
		p := byName[memberName(m.member.Role, m.member.Index)]
		switch {
		case p == nil:
			missing = append(missing, m)
			continue
		case p.DeletionTimestamp != nil:
		case p.Status.Phase == corev1.PodFailed || attemptOf(p) != s.Attempt:
			d.remove = append(d.remove, p) // counted above: it is started again
		case p.Status.Phase == corev1.PodRunning:
			running[m.member.Role]++
			if m.placement != o.placement {
				grown(s, m.placement)
			}
		}
		exist++
	}
	unsay(s, v1alpha1.ReasonWaitsForRoom)
	switch {
	case o.complete(s, running):
		s.Phase, s.NotBefore = v1alpha1.GangRunning, nil
		s.Refusals, s.StartTimeouts = 0, 0
		o.started(s)
	case len(places) == 0:
		s.Phase, s.Reason, s.Message = v1alpha1.GangStarting, v1alpha1.ReasonWaitsForRoom, waitsForRoom
	case exist > 0 || s.Phase != v1alpha1.GangPlanned:
		s.Phase = v1alpha1.GangStarting
	}
	o.followData(s)
	o.followStart(s)
	o.followNodes(s)
	d.after = o.nextStuck()
	if len(missing) == 0 {
		return d
	}
	if s.NotBefore != nil && o.now.Before(s.NotBefore.Time) {
		d.after = s.NotBefore.Sub(o.now)
		return d
	}
	d.create = missing
	if !o.complete(s, running) {
		s.Phase = v1alpha1.GangStarting
	}
	return d
}

// stop ends the attempt, not the gang; it is planned again after a while.
func (o observed) stop(s *v1alpha1.GangStatus, reason string, wait time.Duration, format string, args ...any) {
	s.Reason = reason
	s.Message = fmt.Sprintf(format, args...)
	s.Phase = v1alpha1.GangDraining
	s.NotBefore = nil
	if wait > 0 {
		s.NotBefore = inAWhile(o.now, wait)
	}
	if o.gang.Spec.Restart == v1alpha1.RestartScopeGang {
		s.Done = nil // all members of a collective start again together
	}
}
