package pipeline

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestGPUSecondsOfAJob are what nodes have counted, and of members that still run
// what can be known.
func TestGPUSecondsOfAJob(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	two := resource.MustParse("2")
	job := func(change func(*v1alpha1.TrainingJobStatus)) *v1alpha1.TrainingJob {
		began := metav1.NewTime(start)
		j := &v1alpha1.TrainingJob{}
		j.Spec.Roles = []v1alpha1.Role{{Name: "ps"}, {Name: "worker", GPUs: &two}}
		j.Status = v1alpha1.TrainingJobStatus{StartTime: &began, GPUSeconds: resource.MustParse("7"), Roles: []v1alpha1.RoleStatus{{Name: "ps", Running: 5}, {Name: "worker", Running: 3}}}
		change(&j.Status)
		return j
	}
	at := func(seconds int) *metav1.Time {
		return &metav1.Time{Time: start.Add(time.Duration(seconds) * time.Second)}
	}
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.TrainingJobStatus)
		want   float64
	}{
		{"running for 10 s", func(*v1alpha1.TrainingJobStatus) {}, 7 + 3*2*10},
		{"not started", func(s *v1alpha1.TrainingJobStatus) { s.StartTime = nil }, 7},
		{"finished after 4 s, workers still ending", func(s *v1alpha1.TrainingJobStatus) { s.FinishTime = at(4) }, 7 + 3*2*4},
		{"finished, all workers counted", func(s *v1alpha1.TrainingJobStatus) { s.FinishTime, s.Roles[1].Running = at(4), 0 }, 7},
		{"drained", func(s *v1alpha1.TrainingJobStatus) { s.DrainedTime = &metav1.MicroTime{Time: start} }, 7},
	} {
		if got := gpuSeconds(job(c.change), start.Add(10*time.Second)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestIdleGPUsOfAJob: what a job held before all its members ran is held, too, and idle;
// what it held while it ended its nodes have counted.
func TestIdleGPUsOfAJob(t *testing.T) {
	for _, c := range []struct {
		name                string
		start, started, end string
		held, idle          string
	}{
		{"nothing known", "", "", "", "7", ""},
		{"until all ran", "5", "", "", "12", "5"},
		{"some ran before others", "5", "3", "", "9", "5"},
		{"until all ran, and while they ended", "5", "", "2", "12", "7"},
		{"gone before its nodes counted", "", "", "9", "7", "7"},
	} {
		job := &v1alpha1.TrainingJob{}
		job.Status = v1alpha1.TrainingJobStatus{GPUSeconds: resource.MustParse("7"), FinishTime: &metav1.Time{}, DrainedTime: &metav1.MicroTime{}}
		for text, to := range map[*string]**resource.Quantity{&c.start: &job.Status.GPUStartSeconds, &c.started: &job.Status.GPUStartedSeconds, &c.end: &job.Status.GPUEndSeconds} {
			if *text != "" {
				*to = new(resource.MustParse(*text))
			}
		}
		s := &step{status: &v1alpha1.StageStatus{}}
		s.noteJobGPUs(job)
		idle := ""
		if q := s.status.GPUIdleSeconds; q != nil {
			idle = q.String()
		}
		if held := s.status.GPUSeconds.String(); held != c.held || idle != c.idle {
			t.Errorf("%s: held for %s, idle for %s, want %s and %s", c.name, held, idle, c.held, c.idle)
		}
	}
}
