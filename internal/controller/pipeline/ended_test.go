package pipeline

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestLastEnded: a pipeline shows the result of its last run, in its status and in words.
func TestLastEnded(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	run := func(number int64, phase v1alpha1.RunPhase, message string) *v1alpha1.PipelineRun {
		return &v1alpha1.PipelineRun{
			ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + number)), CreationTimestamp: metav1.NewTime(now.Add(time.Duration(number) * time.Hour))},
			Spec:       v1alpha1.PipelineRunSpec{Number: number},
			Status:     v1alpha1.PipelineRunStatus{Phase: phase, Message: message, FinishTime: &now},
		}
	}
	none, before := int32(0), &v1alpha1.EndedRun{Name: "z", Phase: v1alpha1.RunFailed, Message: "why"}
	for name, c := range map[string]struct {
		change func(*seen)
		want   string // name, phase
		says   string
	}{
		"none": {func(*seen) {}, "", "waits for commits"},
		"failed": {func(s *seen) {
			s.ended = []*v1alpha1.PipelineRun{run(2, v1alpha1.RunFailed, "stage a: no"), run(1, v1alpha1.RunSucceeded, "fine")}
		}, "c Failed", "waits for commits; the last run, c, failed: stage a: no"},
		"succeeded since": {func(s *seen) {
			s.ended = []*v1alpha1.PipelineRun{run(1, v1alpha1.RunFailed, "no"), run(2, v1alpha1.RunSucceeded, "fine")}
		}, "c Succeeded", "waits for commits"},
		"cancelled": {func(s *seen) { s.ended = []*v1alpha1.PipelineRun{run(1, v1alpha1.RunCancelled, "x")} }, "b Cancelled", "waits for commits"},
		"deleted":   {func(s *seen) { s.pipeline.Status.LastEnded = before }, "", "waits for commits"},
		"not kept": {func(s *seen) { s.pipeline.Status.LastEnded, s.pipeline.Spec.HistoryLimit = before, &none },
			"z Failed", "waits for commits; the last run, z, failed: why"},
		"not known": {func(s *seen) { s.pipeline.Status.LastEnded, s.problem, s.graph = before, "no", nil }, "z Failed", "no"},
		"another runs": {func(s *seen) {
			s.ended, s.running = []*v1alpha1.PipelineRun{run(1, v1alpha1.RunFailed, "no")}, "r"
		}, "b Failed", "run r is on its way"},
		"long": {func(s *seen) {
			s.ended = []*v1alpha1.PipelineRun{run(1, v1alpha1.RunFailed, strings.Repeat("ä", 2000))}
		},
			"b Failed", "ää..."},
	} {
		t.Run(name, func(t *testing.T) {
			s := known(t, "l1", "r1").begun(t)
			c.change(s)
			d := decide(s)
			got := ""
			if last := d.status.LastEnded; last != nil {
				got = last.Name + " " + string(last.Phase)
				if len(last.Message) > mostEnding {
					t.Errorf("the message has %d bytes", len(last.Message))
				}
			}
			if got != c.want || !strings.HasSuffix(d.status.Message, c.says) {
				t.Errorf("%q, %q", got, d.status.Message)
			}
		})
	}
}
