package trainingjob

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// micro is a moment as the gang's controller writes it.
func micro(after time.Duration) *metav1.MicroTime {
	at := metav1.NewMicroTime(start.Add(after))
	return &at
}

// What the scheduler needs to know is on the gang, and follows the job while
// the gang runs.
func TestForecastIsPassedOn(t *testing.T) {
	limit, priority := int64(4*3600), int32(7)
	j := newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) {
		s.Queue, s.PriorityClassName, s.Resumable = "vision", "urgent", true
		s.ExpectedRunTime, s.ActiveDeadlineSeconds = &metav1.Duration{Duration: 2 * time.Hour}, &limit
		s.Roles[0].Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: "low", Priority: &priority}}
	})
	j.Annotations = map[string]string{v1alpha1.AnnotationSubmitter: "ada@box"}
	w := newWorld(t, j.TrainingJob)
	w.settle("a")
	g := w.gang("a")
	if g.Spec.Queue != "vision" || !g.Spec.Resumable || g.Spec.ExpectedRunTime.Duration != 2*time.Hour || g.Spec.TimeLimit.Duration != 4*time.Hour ||
		g.Annotations[v1alpha1.AnnotationSubmitter] != "ada@box" {
		t.Errorf("%v %+v", g.Annotations, g.Spec)
	}
	if pod := g.Spec.Roles[0].Template.Spec; pod.PriorityClassName != "urgent" || pod.Priority != nil {
		t.Errorf("priority class %q, priority %v", pod.PriorityClassName, pod.Priority)
	}
	limit = 1 << 60
	w.change("a", func(s *v1alpha1.TrainingJobSpec) {
		s.Resumable, s.ExpectedRunTime, s.ActiveDeadlineSeconds = false, nil, &limit
	})
	w.settle("a")
	if g = w.gang("a"); g.Spec.Resumable || g.Spec.ExpectedRunTime != nil || g.Spec.TimeLimit.Duration != longestLimit {
		t.Errorf("%+v", g.Spec)
	}
	if got := condition(w.job("a"), ConditionCurrent); got != "absent" {
		t.Errorf("condition Current: %s", got)
	}
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.PriorityClassName, s.ActiveDeadlineSeconds = "low", nil })
	w.settle("a")
	if g, got := w.gang("a"), condition(w.job("a"), ConditionCurrent); g.Spec.TimeLimit != nil || got != "False SpecChanged" {
		t.Errorf("time limit %v, condition Current: %s", g.Spec.TimeLimit, got)
	}
}

// A job that holds nothing moves to the queue that it names; one that runs says
// that it stays, and moves once it waits again.
func TestWaitingJobMoves(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
	w.settle("a")
	move := func(to string) {
		w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Queue = to })
		w.settle("a")
	}
	expect := func(when, queue, current string) {
		t.Helper()
		if got := w.gang("a").Spec.Queue; got != queue {
			t.Errorf("%s: in queue %s, want %s", when, got, queue)
		}
		if got := condition(w.job("a"), ConditionCurrent); got != current {
			t.Errorf("%s: condition Current: %s, want %s", when, got, current)
		}
	}
	move("vision")
	expect("new", "vision", "absent")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangPending })
	move("speech")
	expect("waiting", "speech", "absent")
	for _, phase := range []v1alpha1.GangPhase{v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning, v1alpha1.GangDraining} {
		w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase = phase })
		move("")
		expect(string(phase), "speech", "False SpecChanged")
	}
	for _, c := range w.job("a").Status.Conditions {
		if c.Type == ConditionCurrent && !strings.Contains(c.Message, "stays in queue speech until it waits again") {
			t.Errorf("said: %s", c.Message)
		}
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangSuspended })
	w.settle("a")
	expect("suspended", "default", "True AsStarted")
	move("default")
	expect("the default by name", "default", "True AsStarted")
}

// A job says that it was evicted, for whom, and when it no longer is.
func TestEvictedJobSaysSo(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 2, "train.py").TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start} })
	w.settle("a")
	if got := condition(w.job("a"), v1alpha1.ConditionEvicted); got != "absent" {
		t.Errorf("condition %s", got)
	}
	message := "makes room for nlp/bert; it is started again when there is room"
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.Message, s.Evictions, s.EvictedFor, s.EvictedTime = v1alpha1.GangDraining, message, 1, "nlp/bert", micro(time.Hour)
	})
	w.settle("a")
	j := w.job("a")
	if j.Status.Phase != v1alpha1.JobWaiting || j.Status.Message != message || j.Status.Evictions != 1 || j.Status.EvictedFor != "nlp/bert" ||
		condition(j, v1alpha1.ConditionEvicted) != "True MakesRoom" || j.Status.Restarts != 0 {
		t.Errorf("%+v", j.Status)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.Message = v1alpha1.GangPending, "needs 4 A100 at once; 2 are free"
	})
	w.settle("a")
	if j = w.job("a"); j.Status.Phase != v1alpha1.JobWaiting || condition(j, v1alpha1.ConditionEvicted) != "True MakesRoom" {
		t.Errorf("%+v", j.Status)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.Message, s.EvictedTime = v1alpha1.GangRunning, "", nil })
	w.settle("a")
	if j = w.job("a"); j.Status.Phase != v1alpha1.JobRunning || j.Status.Evictions != 1 || condition(j, v1alpha1.ConditionEvicted) != "False NotEvicted" {
		t.Errorf("%+v", j.Status)
	}
	told := strings.Join(w.told(), "\n")
	if strings.Count(told, " Evicted ") != 1 || strings.Contains(told, "Restarted") {
		t.Errorf("events:\n%s", told)
	}
}

// A job says that its node left, once, and when it is back.
func TestJobWhoseNodeLeftSaysSo(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 2, "train.py").TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start} })
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.EvictedFrom, s.EvictedTime = v1alpha1.GangDraining, "its node gpu-1 is being drained", micro(time.Hour)
	})
	w.settle("a")
	j := w.job("a")
	if condition(j, v1alpha1.ConditionEvicted) != "True NodeLeaves" || j.Status.Restarts != 0 || j.Status.Evictions != 0 {
		t.Errorf("%+v", j.Status)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.Message = v1alpha1.GangPending, "needs 4 A100 at once; 2 are free"
	})
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.Message, s.EvictedTime = v1alpha1.GangRunning, "", nil })
	w.settle("a")
	if j = w.job("a"); condition(j, v1alpha1.ConditionEvicted) != "False NotEvicted" {
		t.Errorf("%+v", j.Status)
	}
	told := strings.Join(w.told(), "\n")
	if strings.Count(told, " Evicted ") != 1 || !strings.Contains(told, "its node gpu-1 is being drained") {
		t.Errorf("events:\n%s", told)
	}
}

// The time for which a job was kept from running is not held against it.
func TestDeadlineRestsWhileEvicted(t *testing.T) {
	limit := int64(3600)
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.ActiveDeadlineSeconds = &limit }).TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start} })
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.Evictions, s.EvictedFor, s.EvictedTime = v1alpha1.GangPending, 1, "nlp/bert", micro(40*time.Minute)
	})
	w.now = start.Add(5 * time.Hour)
	result, err := w.reconcile("a")
	must(t, err)
	if result.RequeueAfter != 0 || w.gang("a").Spec.Stop != "" {
		t.Fatalf("evicted: %v %q", result, w.gang("a").Spec.Stop)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.EvictedTime, s.AwaySeconds = v1alpha1.GangRunning, nil, 5*3600-40*60
	})
	if result, err = w.reconcile("a"); err != nil || result.RequeueAfter != 20*time.Minute {
		t.Errorf("20 minutes are left; looked at again in %s, error %v", result.RequeueAfter, err)
	}
	w.now = start.Add(5*time.Hour + 20*time.Minute)
	w.settle("a")
	if w.gang("a").Spec.Stop == "" {
		t.Error("not stopped in time")
	}
}
