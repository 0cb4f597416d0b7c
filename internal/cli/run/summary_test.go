package run

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func TestSummary(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(after time.Duration) *metav1.Time { return &metav1.Time{Time: start.Add(after)} }
	micro := func(after time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: start.Add(after)} }
	for name, test := range map[string]struct {
		roles  []v1alpha1.Role
		status v1alpha1.TrainingJobStatus
		want   string
	}{
		"quick, without GPUs": {
			[]v1alpha1.Role{{Name: "worker"}, {Name: "ps"}},
			v1alpha1.TrainingJobStatus{
				Phase: v1alpha1.JobSucceeded, StartTime: at(0), FinishTime: at(0), CPUSeconds: resource.MustParse("100m"),
				LastWorkerTime: micro(500 * time.Millisecond), DrainedTime: micro(507 * time.Millisecond),
			},
			`
j succeeded in under 1 s
  GPU time     0.0 s, no GPU was asked for
  CPU time     0.1 s
  all gone     7 ms after the last worker's end, parameter servers too
  checkpoints  claim j-checkpoints, until the job is deleted
`,
		},
		"long, on GPUs, restarted": {
			[]v1alpha1.Role{{Name: "worker"}},
			v1alpha1.TrainingJobStatus{
				Phase: v1alpha1.JobFailed, Message: "worker-1 ended with exit code 1", GPUs: 2, Restarts: 3,
				StartTime: at(0), FinishTime: at(2 * time.Hour), GPUSeconds: resource.MustParse("14400"), CPUSeconds: resource.MustParse("90"),
			},
			`
j failed after 2h 0m
  worker-1 ended with exit code 1
  restarts     3
  GPU time     14400.0 s (4.0 h)
  CPU time     90.0 s
  checkpoints  claim j-checkpoints, until the job is deleted
`,
		},
		"never started": {
			nil,
			v1alpha1.TrainingJobStatus{Phase: v1alpha1.JobFailed, Message: "no such requirement\nat all", FinishTime: at(0)},
			"\nj failed\n  no such requirement\n  at all\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			summarize(&out, terminal.Coloured(false), &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.TrainingJobSpec{Roles: test.roles}, Status: test.status})
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}
