package gang

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// reporting is a member's pod that says so much after so many seconds.
func reporting(role, index, attempt string, done int64, at, saved int) *corev1.Pod {
	epoch := time.Unix(1_700_000_000, 0)
	r := v1alpha1.PodProgress{}
	if done >= 0 {
		t := metav1.NewMicroTime(epoch.Add(time.Duration(at) * time.Second))
		r.DoneMillionths, r.ReportTime = &done, &t
	}
	if saved > 0 {
		t := metav1.NewMicroTime(epoch.Add(time.Duration(saved) * time.Second))
		r.SavedTime = &t
	}
	data, _ := json.Marshal(r)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRole: role, v1alpha1.LabelIndex: index, v1alpha1.LabelAttempt: attempt}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: v1alpha1.ConditionPodProgress, Message: string(data)}}},
	}
}

func TestWhoseReportCounts(t *testing.T) {
	tests := []struct {
		name   string
		pods   []*corev1.Pod
		member string
		done   int64
	}{
		{"nobody", nil, "", 0},
		{"the chief", []*corev1.Pod{reporting("worker", "0", "1", 100, 1, 0), reporting("chief", "0", "1", 300, 1, 0)}, "chief-0", 300},
		{"worker 0", []*corev1.Pod{reporting("worker", "1", "1", 100, 1, 0), reporting("worker", "0", "1", 300, 1, 0)}, "worker-0", 300},
		{"the first that is waited for", []*corev1.Pod{reporting("trainer", "1", "1", 100, 1, 0), reporting("trainer", "0", "1", 300, 1, 0)}, "trainer-0", 300},
		{"the least", []*corev1.Pod{reporting("worker", "2", "1", 300, 1, 0), reporting("worker", "1", "1", 200, 1, 0)}, farthestBack, 200},
		{"not that of an earlier attempt", []*corev1.Pod{reporting("worker", "0", "0", 900, 1, 0)}, "", 0},
		{"no nonsense", []*corev1.Pod{reporting("worker", "0", "1", 7_000_000, 1, 0)}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := observed{gang: &v1alpha1.Gang{Spec: v1alpha1.GangSpec{DoneWhen: []string{"trainer"}}}, pods: tt.pods, now: time.Unix(1_700_000_100, 0)}
			s := v1alpha1.GangStatus{Attempt: 1}
			o.followProgress(&s)
			member, done := "", int64(0)
			if s.Progress != nil {
				member, done = s.Progress.Member, s.Progress.DoneMillionths
			}
			if member != tt.member || done != tt.done {
				t.Errorf("%s at %d, want %s at %d", member, done, tt.member, tt.done)
			}
		})
	}
}

// Points are kept in terms of the run time of all attempts; they begin anew with
// an attempt, with another member and where work was lost, and their number is
// bounded.
func TestPointsOfProgress(t *testing.T) {
	epoch := time.Unix(1_700_000_000, 0)
	s := v1alpha1.GangStatus{Attempt: 1, AllStartedTime: &metav1.MicroTime{Time: epoch.Add(10 * time.Second)}}
	say := func(role string, attempt string, done int64, at int) {
		o := observed{gang: &v1alpha1.Gang{}, pods: []*corev1.Pod{reporting(role, "0", attempt, done, at, 0)}, now: epoch.Add(time.Hour)}
		o.followProgress(&s)
	}
	want := func(points ...v1alpha1.ProgressPoint) {
		t.Helper()
		if diff := cmp.Diff(points, s.Progress.Points); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	say("worker", "1", 1000, 20)
	say("worker", "1", 1000, 20) // the same look again
	want(v1alpha1.ProgressPoint{DoneMillionths: 1000, RanSeconds: 10})
	say("worker", "1", 2000, 70)
	want(v1alpha1.ProgressPoint{DoneMillionths: 1000, RanSeconds: 10}, v1alpha1.ProgressPoint{DoneMillionths: 2000, RanSeconds: 60})
	say("worker", "1", 500, 80) // back to a checkpoint
	want(v1alpha1.ProgressPoint{DoneMillionths: 500, RanSeconds: 70})
	say("chief", "1", 900, 90)
	want(v1alpha1.ProgressPoint{DoneMillionths: 900, RanSeconds: 80})
	// Another attempt goes on from what ran before.
	s.Attempt, s.RanSeconds, s.AllStartedTime = 2, 500, &metav1.MicroTime{Time: epoch.Add(1000 * time.Second)}
	say("chief", "2", 420_000, 1010)
	want(v1alpha1.ProgressPoint{DoneMillionths: 420_000, RanSeconds: 510})
	if s.Progress.Percent != "42%" || s.Progress.Attempt != 2 {
		t.Errorf("got %+v", s.Progress)
	}
	for i := range 1000 {
		say("chief", "2", 420_000+int64(i), 1011+i)
		if n := len(s.Progress.Points); n > maxPoints || s.Progress.Points[0].RanSeconds != 510 || s.Progress.Points[n-1].RanSeconds != int64(511+i) {
			t.Fatalf("after %d reports: %+v", i, s.Progress.Points)
		}
	}
}

func TestSavedTimeIsTheNewestOfAll(t *testing.T) {
	epoch := time.Unix(1_700_000_000, 0)
	s := v1alpha1.GangStatus{Attempt: 2}
	o := observed{gang: &v1alpha1.Gang{}, now: epoch.Add(time.Hour), pods: []*corev1.Pod{reporting("worker", "0", "2", -1, 0, 30), reporting("worker", "1", "2", -1, 0, 50)}}
	o.gone = []*corev1.Pod{reporting("worker", "0", "1", -1, 0, 40)}
	o.followProgress(&s)
	if !s.SavedTime.Equal(&metav1.MicroTime{Time: epoch.Add(50 * time.Second)}) {
		t.Errorf("got %v", s.SavedTime)
	}
	o.pods = []*corev1.Pod{reporting("worker", "0", "2", -1, 0, 20), reporting("worker", "1", "2", -1, 0, 1_000_000)}
	o.followProgress(&s)
	if !s.SavedTime.Equal(&metav1.MicroTime{Time: epoch.Add(50 * time.Second)}) {
		t.Errorf("it went back, or into the future: %v", s.SavedTime)
	}
}

// Where a member says itself when it saved, what was seen of others is nothing.
func TestWhoSaysThatItSavedWins(t *testing.T) {
	epoch := time.Unix(1_700_000_000, 0)
	says := reporting("worker", "0", "1", 100, 1, 30)
	says.Status.Conditions[0].Message = strings.Replace(says.Status.Conditions[0].Message, "{", `{"saysSaved":true,`, 1)
	o := observed{gang: &v1alpha1.Gang{}, now: epoch.Add(time.Hour), pods: []*corev1.Pod{says, reporting("worker", "1", "1", -1, 0, 50)}}
	s := v1alpha1.GangStatus{Attempt: 1}
	o.followProgress(&s)
	if !s.SavedTime.Equal(&metav1.MicroTime{Time: epoch.Add(30 * time.Second)}) {
		t.Errorf("got %v", s.SavedTime)
	}
}
