package gang

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberstatus"
)

const (
	// maxPoints is how many reports of an attempt are kept.
	maxPoints = 8
	// farthestBack is the member whose progress counts where none of those reports
	// whose report is the gang's: whoever is the least far.
	farthestBack = "least"
)

// followProgress notes how far the gang is and when its work was last saved,
// as the nodes say of its members.
//
// All members of a job work on the same, so that one report is the gang's: the
// chief's, else that of worker 0, else that of the first member of a role that
// the gang waits for; and where none of them reports, the least that any other
// does. Whoever saved last saved for all; where
// members say themselves when they saved, what was seen of the others does not
// count.
func (o observed) followProgress(s *v1alpha1.GangStatus) {
	reports := map[string]v1alpha1.PodProgress{}
	all := slices.Concat(o.pods, o.gone)
	says := slices.ContainsFunc(all, func(p *corev1.Pod) bool { r, _ := memberstatus.Progress(p); return r.SaysSaved })
	for _, p := range all {
		r, ok := memberstatus.Progress(p)
		if !ok {
			continue
		}
		if at := r.SavedTime; r.SaysSaved == says && at != nil && !at.After(o.now.Add(time.Minute)) && (s.SavedTime == nil || at.After(s.SavedTime.Time)) {
			s.SavedTime = at.DeepCopy()
		}
		if r.DoneMillionths != nil && r.ReportTime != nil && attemptOf(p) == s.Attempt {
			reports[nameOf(p)] = r
		}
	}
	if member, r, ok := o.spokesman(reports); ok {
		o.note(s, member, r)
	}
}

// spokesman is the report that counts for the gang.
func (o observed) spokesman(reports map[string]v1alpha1.PodProgress) (string, v1alpha1.PodProgress, bool) {
	for _, role := range slices.Concat([]string{"chief", "worker"}, o.gang.Spec.DoneWhen) {
		if r, ok := reports[memberName(role, 0)]; ok {
			return memberName(role, 0), r, true
		}
	}
	var out v1alpha1.PodProgress
	for _, r := range reports {
		fewer := out.DoneMillionths == nil || *r.DoneMillionths < *out.DoneMillionths
		if fewer || *r.DoneMillionths == *out.DoneMillionths && r.ReportTime.After(out.ReportTime.Time) {
			out = r
		}
	}
	return farthestBack, out, out.DoneMillionths != nil
}

// note takes in a report. One of another attempt or of another member than the
// last begins anew, and so does one that says that less is done than before:
// work was lost, and the rate is measured from there.
func (o observed) note(s *v1alpha1.GangStatus, member string, r v1alpha1.PodProgress) {
	done := *r.DoneMillionths
	before := s.Progress
	if before != nil && before.Attempt == s.Attempt && before.Member == member && before.DoneMillionths == done && !r.ReportTime.After(lastReport(before)) {
		return
	}
	next := v1alpha1.Progress{
		Percent: fmt.Sprintf("%d%%", done*100/v1alpha1.Whole), DoneMillionths: done,
		ObservedTime: r.ReportTime.DeepCopy(), Member: member, Attempt: s.Attempt,
	}
	point := v1alpha1.ProgressPoint{DoneMillionths: done, RanSeconds: s.RanSeconds}
	if s.AllStartedTime != nil {
		point.RanSeconds += int64(max(0, r.ReportTime.Sub(s.AllStartedTime.Time)) / time.Second)
	}
	if before != nil && before.Attempt == s.Attempt && before.Member == member && before.DoneMillionths <= done {
		next.Points = slices.Clone(before.Points)
	}
	if n := len(next.Points); n > 0 {
		point.RanSeconds = max(point.RanSeconds, next.Points[n-1].RanSeconds)
	}
	next.Points = thin(append(next.Points, point))
	s.Progress = &next
}

func lastReport(p *v1alpha1.Progress) time.Time {
	if p.ObservedTime == nil {
		return time.Time{}
	}
	return p.ObservedTime.Time
}

// thin keeps the number of points within its bound, spread over the run time:
// of those between the first and the latest the one goes whose neighbours are
// the closest. Reports of long ago are what later ones are tested by.
func thin(points []v1alpha1.ProgressPoint) []v1alpha1.ProgressPoint {
	for len(points) > maxPoints {
		drop := 1
		for i := 2; i+1 < len(points); i++ {
			if points[i+1].RanSeconds-points[i-1].RanSeconds < points[drop+1].RanSeconds-points[drop-1].RanSeconds {
				drop = i
			}
		}
		points = slices.Delete(points, drop, drop+1)
	}
	return points
}
