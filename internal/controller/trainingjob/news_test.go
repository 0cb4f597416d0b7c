package trainingjob

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/news"
)

// plain is a job of one member that needs no preparation.
func plain() *v1alpha1.TrainingJob {
	job := newJob("a").role("worker", 1, "").TrainingJob
	job.Spec.Code, job.Spec.Environment, job.Spec.Framework = nil, nil, v1alpha1.FrameworkNone
	job.Spec.Roles[0].Command, job.Spec.Checkpoints = []string{"true"}, &v1alpha1.Checkpoints{None: true}
	return job
}

// TestNewsOfAJob leads a job from its start to its end, a tenth of a second
// apart, with little and with much news.
func TestNewsOfAJob(t *testing.T) {
	began, ended := metav1.NewTime(start), metav1.NewMicroTime(start)
	steps := []func(*v1alpha1.GangStatus){
		func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangPending },
		func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangStarting },
		func(s *v1alpha1.GangStatus) { s.Phase, s.StartTime = v1alpha1.GangRunning, &began },
		func(s *v1alpha1.GangStatus) {
			s.Phase, s.Outcome, s.FinishTime = v1alpha1.GangDraining, v1alpha1.GangSucceeded, &began
		},
		func(s *v1alpha1.GangStatus) { s.Phase, s.DrainedTime = v1alpha1.GangSucceeded, &ended },
	}
	for name, tt := range map[string]struct {
		news   *rate.Limiter
		writes int
		events string
	}{
		"little": {news.New(), 5, "Started Succeeded"},
		"much":   {rate.NewLimiter(0, 0), 1, "Succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plain())
			w.controller.news = tt.news
			writes := 0
			w.fail = func(verb string, o client.Object) error {
				if _, is := o.(*v1alpha1.TrainingJob); is && verb == "patch status" {
					writes++
				}
				return nil
			}
			w.settle("a")
			for _, step := range steps {
				w.now = w.now.Add(100 * time.Millisecond)
				w.gangIs("a", step)
				w.settle("a")
			}
			if writes != tt.writes {
				t.Errorf("%d writes of the status, want %d", writes, tt.writes)
			}
			if j := w.job("a"); j.Status.Phase != v1alpha1.JobSucceeded || j.Status.DrainedTime == nil || j.Status.StartTime == nil {
				t.Errorf("%+v", j.Status)
			}
			told := strings.Join(w.told(), "\n")
			for _, event := range []string{"Started", "Succeeded"} {
				if want := strings.Contains(tt.events, event); strings.Contains(told, " "+event+" ") != want {
					t.Errorf("told %q, of %s: %v", told, event, want)
				}
			}
			if len(w.controller.unsaid) > 0 {
				t.Errorf("news is left: %+v", w.controller.unsaid)
			}
		})
	}
}

// News that waits is written once it is due.
func TestNewsIsWrittenWhenItIsDue(t *testing.T) {
	w := newWorld(t, plain())
	w.controller.news = rate.NewLimiter(0, 0)
	w.settle("a")
	result, err := w.reconcile("a")
	must(t, err)
	if result.RequeueAfter != news.Within || w.job("a").Status.Phase != "" {
		t.Fatalf("looked at again after %s; phase %q", result.RequeueAfter, w.job("a").Status.Phase)
	}
	w.now = w.now.Add(news.Within)
	w.settle("a")
	if got := w.job("a").Status.Phase; got != v1alpha1.JobWaiting {
		t.Errorf("phase %q when it was due", got)
	}
}

// Somebody has to find the members of a job unless it is one, and alone.
func TestServiceIsForWhoIsToBeFound(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(*v1alpha1.TrainingJob)
		named bool
	}{
		"one member":     {func(*v1alpha1.TrainingJob) {}, false},
		"two members":    {func(j *v1alpha1.TrainingJob) { *j.Spec.Roles[0].Replicas = 2 }, true},
		"of TensorFlow":  {func(j *v1alpha1.TrainingJob) { j.Spec.Framework = v1alpha1.FrameworkTensorFlow }, true},
		"a port by name": {func(j *v1alpha1.TrainingJob) { j.Spec.Roles[0].PortName = "web" }, true},
		"a port in its template": {func(j *v1alpha1.TrainingJob) {
			j.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			job := plain()
			tt.edit(job)
			if got := named(job); got != tt.named {
				t.Errorf("named: %v, want %v", got, tt.named)
			}
		})
	}
}

// A gang that was made and that the cache does not show yet is not made again,
// until it should have been seen.
func TestGangIsMadeOnceAlthoughTheCacheLags(t *testing.T) {
	w := newWorld(t, plain())
	made := 0
	w.fail = func(verb string, o client.Object) error {
		if _, is := o.(*v1alpha1.Gang); is && verb == "create" {
			made++
		}
		return nil
	}
	w.settle("a")
	// What the cache does not show is, for the controller, as if it were not.
	g := w.gang("a")
	g.Finalizers = nil
	must(t, w.Update(t.Context(), g))
	must(t, w.Delete(t.Context(), g))
	w.controller.bear(w.job("a").UID)
	result, err := w.reconcile("a")
	must(t, err)
	if made != 1 || result.RequeueAfter != showing {
		t.Errorf("made %d times, looked at again after %s; want once and %s", made, result.RequeueAfter, showing)
	}
	w.now = w.now.Add(showing)
	w.settle("a")
	if made != 2 {
		t.Errorf("made %d times once it should have been seen, want twice", made)
	}
}
