package gang

import (
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// order reads the order to end the present attempt that an annotation of the
// gang holds: "<attempt> <whom>". It returns false where there is none, where
// it is of another attempt, and where it cannot be read.
func (o observed) order(annotation string, s *v1alpha1.GangStatus) (whom string, given bool) {
	words := strings.Fields(o.gang.Annotations[annotation])
	if len(words) != 2 {
		return "", false
	}
	attempt, err := strconv.ParseInt(words[0], 10, 32)
	return words[1], err == nil && attempt > 0 && int32(attempt) == s.Attempt
}

// evict obeys the scheduler's order to make room. It returns true if the
// attempt ends with it. That an attempt is evicted once is in the phases: the
// count is written together with Draining, after which the attempt never holds
// a placement again.
//
// Nothing failed: there is no back-off, and members that end by themselves
// before they are told to stop count as ended.
func (o observed) evict(s *v1alpha1.GangStatus) bool {
	whom, given := o.order(v1alpha1.AnnotationEvict, s)
	if !given || strings.Count(whom, "/") != 1 {
		return false
	}
	done := s.Done
	o.stop(s, v1alpha1.ReasonPreempted, 0, "makes room for %s; it is started again when there is room", whom)
	s.Done = done
	s.Evictions++
	s.EvictedFor, s.EvictedFrom = whom, ""
	if s.EvictedTime == nil {
		s.EvictedTime = &metav1.MicroTime{Time: o.now}
	}
	return true
}

// evicting reports whether the attempt is being stopped to make room.
func evicting(s *v1alpha1.GangStatus) bool {
	return s.Phase == v1alpha1.GangDraining && s.EvictedTime != nil
}

// giveUp obeys a person's order to release what the attempt holds whether its
// members answer or not. It returns true if the attempt ends with it.
func (o observed) giveUp(s *v1alpha1.GangStatus) bool {
	whom, given := o.order(v1alpha1.AnnotationRelease, s)
	if !given {
		return false
	}
	o.stop(s, v1alpha1.ReasonReleased, 0, "released by force by %s; it is started again when there is room", whom)
	return true
}

// forced reports whether the members of the attempt are not waited for.
func (o observed) forced(s *v1alpha1.GangStatus) bool {
	_, given := o.order(v1alpha1.AnnotationRelease, s)
	return given
}

// started notes that every member runs.
func (o observed) started(s *v1alpha1.GangStatus) {
	if s.AllStartedTime == nil {
		s.AllStartedTime = &metav1.MicroTime{Time: o.now}
	}
	if s.EvictedTime != nil {
		s.AwaySeconds += o.secondsSince(s.EvictedTime) + 1 // never less than it was: limits are extended by it
		s.EvictedTime = nil
	}
}

// tally adds the run time of an attempt that has ended to that of the earlier
// ones, and for how long GPUs were held idle.
func (o observed) tally(s *v1alpha1.GangStatus) {
	o.followGPUs(s)
	switch s.Phase {
	case v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning:
		return
	}
	o.bank(s)
	o.givenUpOnData(s)
}

func (o observed) bank(s *v1alpha1.GangStatus) {
	if s.AllStartedTime != nil {
		s.RanSeconds += o.secondsSince(s.AllStartedTime)
		s.AllStartedTime = nil
	}
}

// secondsSince is how long ago something was, in whole seconds; 0 where the
// clock was set back since.
func (o observed) secondsSince(at *metav1.MicroTime) int64 {
	return int64(max(0, o.now.Sub(at.Time)) / time.Second)
}
