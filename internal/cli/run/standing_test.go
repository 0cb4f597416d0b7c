package run

import (
	"bytes"
	"strings"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func TestExpect(t *testing.T) {
	job := build(t, Flags{Command: train, Expect: "1d30m", Resumable: true, Priority: "urgent"}, inputs())
	if job.Spec.ExpectedRunTime.Duration != 24*time.Hour+30*time.Minute || !job.Spec.Resumable || job.Spec.PriorityClassName != "urgent" {
		t.Errorf("%+v", job.Spec)
	}
	job = build(t, Flags{Command: train, Expect: "90.7s"}, inputs())
	if job.Spec.ExpectedRunTime.Duration != 90*time.Second {
		t.Errorf("%s, want whole seconds", job.Spec.ExpectedRunTime.Duration)
	}
}

// A queue or class that is not there is a warning: the job is made all the same.
func TestStandingAdvice(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 100}
	server := sample.World(t, sample.Queue("vision", "", "4", nil), class)
	for _, c := range []struct {
		name, queue, priority string
		want                  []string
	}{
		{"neither is named", "", "", nil},
		{"both are there", "vision", "urgent", nil},
		{"the default queue need not be made", "default", "", nil},
		{"a misspelt queue", "visoin", "", []string{"warning: there is no queue visoin (did you mean vision?): the job waits until there is", "`muster queue create visoin`"}},
		{"a misspelt class", "", "urgnet", []string{"warning: there is no priority class urgnet (did you mean urgent?): the job waits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := &bytes.Buffer{}
			o := &options{factory: connection.New(terminal.Streams{Err: errs, NoColor: true}, "test")}
			o.adviseStanding(t.Context(), server, &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Queue: c.queue, PriorityClassName: c.priority}})
			if (errs.Len() == 0) != (c.want == nil) {
				t.Errorf("said %q", errs)
			}
			for _, want := range c.want {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("said %q, want %q", errs, want)
				}
			}
		})
	}
}
