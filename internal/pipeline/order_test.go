package pipeline

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestOrderOfRuns: runs that began within one second are in the order in which they were
// started, whatever they are called.
func TestOrderOfRuns(t *testing.T) {
	run := func(second, number int64, name string) *v1alpha1.PipelineRun {
		return &v1alpha1.PipelineRun{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
			Spec:       v1alpha1.PipelineRunSpec{Number: number},
		}
	}
	runs := []*v1alpha1.PipelineRun{run(8, 3, "a"), run(7, 2, "b"), run(7, 1, "c"), run(7, 2, "a")}
	slices.SortFunc(runs, Order)
	var names string
	for _, r := range runs {
		names += r.Name
	}
	if names != "caba" {
		t.Error(names)
	}
}
