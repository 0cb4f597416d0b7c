package trainingjob

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

const everything = "1 gangs, 1 services, 1 claims"

func condition(j *v1alpha1.TrainingJob, kind string) string {
	c := meta.FindStatusCondition(j.Status.Conditions, kind)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason
}

func TestJobIsPreparedThenCreatedAtOnce(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 2, "train.py").requirements("numpy").TrainingJob)
	w.makers.build = environment.State{Phase: environment.Building, Message: "installing packages: 3 of 34", Done: 3, Total: 34}
	w.settle("a")
	j := w.job("a")
	if w.objects() != "0 gangs, 0 services, 0 claims" || j.Status.Phase != v1alpha1.JobPreparing || j.Status.Message != "environment: installing packages: 3 of 34" ||
		j.Status.Ready != "0/2" || condition(j, v1alpha1.ConditionPrepared) != "False Preparing" || j.Status.ObservedGeneration != 1 || j.Status.CodeSnapshot != digest {
		t.Fatalf("%s %+v", w.objects(), j.Status)
	}
	w.makers.build = environment.State{Phase: environment.Ready, Key: "key", Path: "/e"}
	_, err := w.reconcile("a")
	must(t, err)
	j = w.job("a")
	if w.objects() != everything || j.Status.Phase != v1alpha1.JobWaiting || j.Status.EnvironmentKey != "key" || condition(j, v1alpha1.ConditionPrepared) != "True Ready" {
		t.Fatalf("%s %+v", w.objects(), j.Status)
	}
	claim := &corev1.PersistentVolumeClaim{}
	must(t, w.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a-checkpoints"}, claim))
	if claim.Spec.AccessModes[0] != corev1.ReadWriteMany || claim.Spec.Resources.Requests.Storage().String() != "10Gi" || !belongs(j, claim) {
		t.Errorf("%+v", claim)
	}
	asked := len(w.makers.asked)
	w.settle("a")
	if len(w.makers.asked) != asked {
		t.Error("the environment is asked for although the gang exists")
	}
}

func TestPreparationFailuresAreTheJobs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *v1alpha1.TrainingJobSpec)
		want   string
	}{
		"requirements": {func(w *world, s *v1alpha1.TrainingJobSpec) {
			s.Environment = &v1alpha1.Environment{Requirements: "x==99"}
			w.makers.build = environment.State{Phase: environment.Failed, Message: "ERROR: No matching distribution found for x==99"}
		}, "environment: ERROR: No matching distribution found for x==99"},
		"URL": {func(w *world, s *v1alpha1.TrainingJobSpec) {
			s.Code = &v1alpha1.Code{URL: "http://host.test/train.py"}
			w.makers.fetch = source.State{Phase: source.Failed, Message: "fetching http://host.test/train.py: the server answered 404 Not Found"}
		}, "the server answered 404 Not Found"},
		"snapshot from elsewhere": {func(_ *world, s *v1alpha1.TrainingJobSpec) {
			s.Code.Snapshot = "sha256:" + strings.Repeat("b", 64)
		}, "not stored here; submit the job with muster run"},
		"missing script": {func(_ *world, s *v1alpha1.TrainingJobSpec) { s.Roles[0].Script = "trian.py" }, "the script trian.py is not in the job's code"},
		"bad spec":       {func(_ *world, s *v1alpha1.TrainingJobSpec) { s.Roles[0].GPUs = quantity("-1") }, "whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob("a").role("worker", 1, "train.py")
			w := newWorld(t)
			c.change(w, &j.Spec)
			must(t, w.Create(t.Context(), j.TrainingJob))
			w.settle("a")
			got := w.job("a")
			if got.Status.Phase != v1alpha1.JobFailed || !strings.Contains(got.Status.Message, c.want) || condition(got, v1alpha1.ConditionFinished) != "True Failed" || got.Status.DrainedTime == nil ||
				got.Status.FinishTime == nil || w.objects() != "0 gangs, 0 services, 0 claims" {
				t.Errorf("%s %+v", w.objects(), got.Status)
			}
			if told := w.told(); len(told) != 1 || !strings.Contains(told[0], "Failed") {
				t.Errorf("%v", told)
			}
		})
	}
}

// TestAStoreThatDoesNotAnswer is waited for: it says nothing of the code.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.makers.away = errors.New("bucket code does not answer")
	must(t, w.Create(t.Context(), newJob("a").role("worker", 1, "train.py").TrainingJob))
	waits := func() {
		t.Helper()
		w.settle("a")
		if got := w.job("a"); got.Status.Phase != v1alpha1.JobPreparing || !strings.Contains(got.Status.Message, "bucket code does not answer; trying again") {
			t.Errorf("%s: %s", got.Status.Phase, got.Status.Message)
		}
	}
	waits()
	// It may be away from one question to the next.
	w.makers.away, w.makers.unread = nil, fmt.Errorf("%w: bucket code does not answer", source.ErrAway)
	waits()
	w.makers.unread = nil
	w.settle("a")
	if got := w.job("a"); got.Status.Phase == v1alpha1.JobPreparing || got.Status.Phase == v1alpha1.JobFailed {
		t.Errorf("once it answers: %s: %s", got.Status.Phase, got.Status.Message)
	}
}

func TestURLIsFetchedOnceForAJob(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.Code = &v1alpha1.Code{URL: "http://host.test/train.py"} }).requirements("x").TrainingJob)
	w.makers.build = environment.State{Phase: environment.Building, Message: "building"}
	w.settle("a")
	if got := w.job("a").Status.Message; got != "fetching http://host/train.py; environment: building" {
		t.Errorf("%q", got)
	}
	w.makers.fetch = source.State{Phase: source.Ready, Digest: digest, File: "train.py"}
	w.settle("a")
	// The fetcher forgets; the job does not.
	w.makers.fetch = source.State{Phase: source.Fetching, Message: "again"}
	w.makers.build = environment.State{Phase: environment.Ready, Key: "key"}
	w.settle("a")
	if w.objects() != everything || w.gang("a").Spec.Roles[0].Template.Spec.Volumes[0].CSI.VolumeAttributes["snapshot"] != digest {
		t.Errorf("%s %+v", w.objects(), w.job("a").Status)
	}
	if w.makers.owners[0] == "" || !strings.Contains(w.makers.owners[0], "vision/a/") {
		t.Errorf("%v", w.makers.owners)
	}
}

func TestStatusFollowsTheGang(t *testing.T) {
	w := newWorld(t, newJob("a").role("ps", 1, "ps.py").role("worker", 2, "train.py").TrainingJob)
	w.settle("a")
	began := metav1.NewTime(start.Add(time.Minute))
	for _, step := range []struct {
		name      string
		gang      func(*v1alpha1.GangStatus)
		phase     v1alpha1.JobPhase
		message   string
		scheduled string
	}{
		{"waits", func(s *v1alpha1.GangStatus) {
			s.Phase, s.Message = v1alpha1.GangPending, "needs 4 A100 at once; 2 are free"
		}, v1alpha1.JobWaiting, "needs 4 A100 at once; 2 are free", "False Waiting"},
		{"placed", func(s *v1alpha1.GangStatus) { s.Phase, s.Message = v1alpha1.GangPlanned, "" }, v1alpha1.JobStarting, "its members are being started", "True Placed"},
		{"runs", func(s *v1alpha1.GangStatus) {
			s.Phase, s.StartTime = v1alpha1.GangRunning, &began
			s.Roles = []v1alpha1.RoleStatus{{Name: "ps", Wanted: 1, Running: 1}, {Name: "worker", Wanted: 2, Running: 1, Pending: 1}}
		}, v1alpha1.JobRunning, "", "True Placed"},
		{"restarted", func(s *v1alpha1.GangStatus) { s.Restarts = 1 }, v1alpha1.JobRunning, "", "True Placed"},
		{"succeeded, ending", func(s *v1alpha1.GangStatus) {
			s.Phase, s.Outcome, s.GPUSeconds = v1alpha1.GangDraining, v1alpha1.GangSucceeded, *quantity("7500m")
			s.FinishTime = &metav1.Time{Time: start.Add(time.Hour)}
		}, v1alpha1.JobSucceeded, "every worker succeeded", "True Placed"},
		{"gone", func(s *v1alpha1.GangStatus) {
			s.Phase, s.GPUSeconds = v1alpha1.GangSucceeded, *quantity("9")
			s.DrainedTime = &metav1.MicroTime{Time: start.Add(time.Hour + time.Second)}
		}, v1alpha1.JobSucceeded, "every worker succeeded", "False Ended"},
	} {
		w.gangIs("a", step.gang)
		w.settle("a")
		j := w.job("a")
		if j.Status.Phase != step.phase || j.Status.Message != step.message || condition(j, v1alpha1.ConditionScheduled) != step.scheduled {
			t.Errorf("%s: %s %q %s", step.name, j.Status.Phase, j.Status.Message, condition(j, v1alpha1.ConditionScheduled))
		}
		if step.name == "runs" && (j.Status.Ready != "2/3" || !j.Status.StartTime.Equal(&began)) {
			t.Errorf("runs: %+v", j.Status)
		}
	}
	j := w.job("a")
	if j.Status.GPUSeconds.String() != "9" || j.Status.DrainedTime == nil || !j.Status.FinishTime.Time.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v", j.Status)
	}
	told := strings.Join(w.told(), "\n")
	for _, want := range []string{"Started", "Restarted", "Succeeded"} {
		if strings.Count(told, " "+want+" ") != 1 {
			t.Errorf("%s in %s", want, told)
		}
	}
}

// TestWordsForASingleMember are those of who runs one script, and knows of no
// gang, placement or members.
func TestWordsForASingleMember(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
	w.settle("a")
	for _, step := range []struct {
		gang    func(*v1alpha1.GangStatus)
		message string
	}{
		{func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangPlanned }, "it is being started"},
		{func(s *v1alpha1.GangStatus) {
			s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start}
		}, ""},
		{func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangDraining }, "it is being stopped, to be started anew"},
		{func(s *v1alpha1.GangStatus) { s.Outcome = v1alpha1.GangSucceeded }, "it ended with exit code 0"},
	} {
		w.gangIs("a", step.gang)
		w.settle("a")
		if got := w.job("a").Status.Message; got != step.message {
			t.Errorf("%q, want %q", got, step.message)
		}
	}
	said := strings.Join(w.told(), "\n")
	for _, c := range w.job("a").Status.Conditions {
		said += "\n" + c.Message
	}
	for _, word := range []string{"gang", "placement", "member"} {
		if strings.Contains(strings.ToLower(said), word) {
			t.Errorf("%s in %s", word, said)
		}
	}
}

func TestWordsForSuccess(t *testing.T) {
	for want, roles := range map[string][]v1alpha1.GangRole{
		"it ended with exit code 0":             {{Name: "worker", Replicas: 1}},
		"the chief succeeded":                   {{Name: "chief", Replicas: 1}, {Name: "ps", Replicas: 2}},
		"every worker succeeded":                {{Name: "worker", Replicas: 3}, {Name: "ps", Replicas: 2}},
		"every actor and the learner succeeded": {{Name: "actor", Replicas: 3}, {Name: "learner", Replicas: 1}},
	} {
		gang := &v1alpha1.Gang{Spec: v1alpha1.GangSpec{Roles: roles}}
		for i := range roles {
			if roles[i].Name != "ps" {
				gang.Spec.DoneWhen = append(gang.Spec.DoneWhen, roles[i].Name)
			}
		}
		if got := success(gang); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestGangThatFails(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.Message = v1alpha1.GangFailed, "worker-0 exited with code 3" })
	w.settle("a")
	if j := w.job("a"); j.Status.Phase != v1alpha1.JobFailed || j.Status.Message != "worker-0 exited with code 3" || condition(j, v1alpha1.ConditionFinished) != "True Failed" {
		t.Errorf("%+v", j.Status)
	}
}

func TestSuspendAndResume(t *testing.T) {
	suspended := newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.Suspend = true })
	w := newWorld(t, suspended.TrainingJob)
	w.settle("a")
	if j := w.job("a"); w.objects() != "0 gangs, 0 services, 0 claims" || j.Status.Phase != v1alpha1.JobSuspended || condition(j, ConditionSuspended) != "True Suspended" {
		t.Errorf("%s %+v", w.objects(), j.Status)
	}
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = false })
	w.settle("a")
	if w.objects() != everything || w.gang("a").Spec.Suspend || condition(w.job("a"), ConditionSuspended) != "False Resumed" {
		t.Errorf("%s %+v", w.objects(), w.job("a").Status)
	}
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = true })
	w.settle("a")
	if !w.gang("a").Spec.Suspend {
		t.Error("the gang goes on")
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangSuspended })
	w.settle("a")
	if j := w.job("a"); j.Status.Phase != v1alpha1.JobSuspended {
		t.Errorf("%+v", j.Status)
	}
}

func TestDeadline(t *testing.T) {
	limit := int64(3600)
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.ActiveDeadlineSeconds = &limit }).TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start}
	})
	w.now = start.Add(10 * time.Minute)
	result, err := w.reconcile("a")
	must(t, err)
	if result.RequeueAfter != 50*time.Minute+precision || w.gang("a").Spec.Stop != "" {
		t.Errorf("%v %q", result, w.gang("a").Spec.Stop)
	}
	// A night's suspension is not held against it.
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = true })
	w.settle("a")
	w.now = start.Add(10 * time.Hour)
	w.settle("a")
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = false })
	w.settle("a")
	if stop := w.gang("a").Spec.Stop; stop != "" {
		t.Fatalf("stopped: %s", stop)
	}
	w.now = start.Add(11*time.Hour - 1)
	result, err = w.reconcile("a")
	must(t, err)
	if result.RequeueAfter != 1 || w.gang("a").Spec.Stop != "" {
		t.Errorf("%v %q", result, w.gang("a").Spec.Stop)
	}
	w.now = start.Add(11 * time.Hour)
	w.settle("a")
	if stop := w.gang("a").Spec.Stop; stop != "stopped: it ran for longer than its limit of 1h0m0s (activeDeadlineSeconds: 3600)" {
		t.Errorf("%q", stop)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.Outcome, s.Message = v1alpha1.GangDraining, v1alpha1.GangFailed, w.gang("a").Spec.Stop
	})
	w.settle("a")
	if got := condition(w.job("a"), v1alpha1.ConditionFinished); got != "True DeadlineExceeded" {
		t.Error(got)
	}
	gone := metav1.NewMicroTime(start.Add(12 * time.Hour).Local())
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.DrainedTime, s.LastWorkerTime = v1alpha1.GangFailed, &gone, &gone
	})
	w.settle("a")
	if j := w.job("a"); !j.Status.DrainedTime.Equal(&gone) || !j.Status.LastWorkerTime.Equal(&gone) || condition(j, v1alpha1.ConditionFinished) != "True DeadlineExceeded" {
		t.Errorf("%+v", j.Status)
	}
}

// TestDeadlineIsKeptToTheMoment has the start seen at different times after the
// whole second that the API keeps of it, and Muster restarted before the end.
func TestDeadlineIsKeptToTheMoment(t *testing.T) {
	for name, c := range map[string]struct{ seen, stop time.Duration }{
		"seen in the same second": {300 * time.Millisecond, 10*time.Second + 300*time.Millisecond},
		"seen a second later":     {time.Second, 11 * time.Second},
		"seen much later":         {7 * time.Second, 11 * time.Second},
		"seen after the end":      {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			limit := int64(10)
			w := newWorld(t, newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.ActiveDeadlineSeconds = &limit }).TrainingJob)
			w.settle("a")
			w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start} })
			w.now = start.Add(c.seen)
			result, err := w.reconcile("a")
			must(t, err)
			if result.RequeueAfter != c.stop-c.seen {
				t.Errorf("it is looked at again in %s, want %s", result.RequeueAfter, c.stop-c.seen)
			}
			w.controller = &Controller{deps: w.controller.deps, client: w.Client, recorder: w.events}
			w.now = start.Add(max(c.stop-1, c.seen))
			w.settle("a")
			if stop := w.gang("a").Spec.Stop; stop != "" && c.stop > c.seen {
				t.Errorf("stopped before its time: %s", stop)
			}
			w.now = start.Add(c.stop)
			w.settle("a")
			if w.gang("a").Spec.Stop == "" {
				t.Error("not stopped in time")
			}
		})
	}
}

// TestDeadlineFollowsTheSpec changes the limit of a job that runs.
func TestDeadlineFollowsTheSpec(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start} })
	w.settle("a")
	if noted, ok := w.gang("a").Annotations[AnnotationSince]; ok {
		t.Errorf("the start %s is noted of a job without a limit", noted)
	}
	for _, c := range []struct {
		limit int64
		wait  time.Duration
	}{{3600, time.Hour}, {60, time.Minute}, {math.MaxInt64, math.MaxInt64 / time.Second * time.Second}} {
		w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.ActiveDeadlineSeconds = &c.limit })
		result, err := w.reconcile("a")
		must(t, err)
		if result.RequeueAfter != c.wait || w.gang("a").Spec.Stop != "" {
			t.Errorf("limit %d: looked at again in %s, want %s; stop %q", c.limit, result.RequeueAfter, c.wait, w.gang("a").Spec.Stop)
		}
	}
}

func TestFailureBeforeTheDeadlineIsNotTheDeadlines(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
	w.settle("a")
	if f := w.gang("a").Finalizers; !slices.Equal(f, []string{v1alpha1.GangFinalizer}) {
		t.Errorf("finalizers %v", f)
	}
	w.gangIs("a", func(s *v1alpha1.GangStatus) {
		s.Phase, s.Outcome, s.Message = v1alpha1.GangFailed, v1alpha1.GangFailed, "worker-0 ended with exit code 3"
	})
	w.settle("a")
	if got := condition(w.job("a"), v1alpha1.ConditionFinished); got != "True Failed" {
		t.Error(got)
	}
}

func TestTTL(t *testing.T) {
	ttl := int32(60)
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").with(func(s *v1alpha1.TrainingJobSpec) { s.TTLSecondsAfterFinished = &ttl }).TrainingJob)
	w.settle("a")
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase, s.Outcome = v1alpha1.GangDraining, v1alpha1.GangSucceeded })
	w.settle("a")
	w.now = start.Add(time.Hour)
	w.settle("a") // its members are still ending
	w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangSucceeded })
	w.now = start.Add(59 * time.Second)
	result, err := w.reconcile("a")
	must(t, err)
	if result.RequeueAfter != time.Second {
		t.Errorf("%v", result)
	}
	w.now = start.Add(60 * time.Second)
	_, err = w.reconcile("a")
	must(t, err)
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a"}, &v1alpha1.TrainingJob{}); !apierrors.IsNotFound(err) {
		t.Errorf("still there: %v", err)
	}
	w.settle("a") // and that is fine
}

func TestWhatIsInTheWay(t *testing.T) {
	earlier := newJob("a")
	earlier.UID = "uid-of-another"
	stranger := metav1.ObjectMeta{Namespace: "vision", Name: "a"}
	ending := owned(newJob("a").TrainingJob, "a")
	ending.Finalizers, ending.DeletionTimestamp = []string{"x.test/f"}, &metav1.Time{Time: start}
	for name, c := range map[string]struct {
		object client.Object
		want   string
		reason string
	}{
		"a stranger's gang":      {&v1alpha1.Gang{ObjectMeta: stranger}, "a Gang named a exists that is not this job's; delete it (kubectl -n vision delete gang a)", "False Stalled"},
		"a stranger's service":   {&corev1.Service{ObjectMeta: stranger}, "a Service named a exists", "False Stalled"},
		"a stranger's claim":     {&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "a-checkpoints"}}, "a PersistentVolumeClaim named a-checkpoints exists", "False Stalled"},
		"an earlier job's gang":  {&v1alpha1.Gang{ObjectMeta: owned(earlier.TrainingJob, "a")}, "waiting until an earlier job of this name is gone; its Gang a is still there", "False Waiting"},
		"a gang that is leaving": {&v1alpha1.Gang{ObjectMeta: ending}, "what runs it was deleted from outside; it is started anew once that is gone", "False Waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob, c.object)
			before := w.objects()
			w.settle("a")
			j := w.job("a")
			if !strings.Contains(j.Status.Message, c.want) || j.Status.Phase != v1alpha1.JobWaiting || condition(j, v1alpha1.ConditionScheduled) != c.reason || w.objects() != before {
				t.Errorf("%s %s %+v", w.objects(), condition(j, v1alpha1.ConditionScheduled), j.Status)
			}
			// Once it is gone, the job goes on.
			if len(c.object.GetFinalizers()) == 0 {
				must(t, w.Delete(t.Context(), c.object))
				w.settle("a")
				if w.objects() != everything {
					t.Errorf("afterwards %s", w.objects())
				}
			}
		})
	}
}

func TestChangedSpecIsNotFollowedAndSaysSo(t *testing.T) {
	w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
	w.settle("a")
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].Args = []string{"--new"} })
	w.settle("a")
	j := w.job("a")
	if condition(j, ConditionCurrent) != "False SpecChanged" || !strings.Contains(meta.FindStatusCondition(j.Status.Conditions, ConditionCurrent).Message, "roles changed") || j.Status.ObservedGeneration != 2 {
		t.Errorf("%+v", j.Status)
	}
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Roles[0].Args = nil })
	w.settle("a")
	if got := condition(w.job("a"), ConditionCurrent); got != "True AsStarted" {
		t.Error(got)
	}
	limit := int32(1)
	w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.BackoffLimit = &limit })
	w.settle("a")
	if w.gang("a").Spec.BackoffLimit != 1 {
		t.Error("the back-off limit was not passed on")
	}
}

func TestDeletedJobCreatesNothing(t *testing.T) {
	j := newJob("a").role("worker", 1, "train.py")
	j.Finalizers = []string{"x.test/f"}
	w := newWorld(t, j.TrainingJob)
	must(t, w.Delete(t.Context(), w.job("a")))
	w.settle("a")
	if got := w.objects(); got != "0 gangs, 0 services, 0 claims" {
		t.Error(got)
	}
}

func TestRefusedByTheServer(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "muster.dev", Kind: "Gang"}, "a", nil)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "gangs"}, "a", errors.New("exceeded quota: small"))
	for _, c := range []struct {
		err   error
		phase v1alpha1.JobPhase
		want  string
	}{{invalid, v1alpha1.JobFailed, "is invalid"}, {forbidden, v1alpha1.JobWaiting, "exceeded quota: small"}} {
		w := newWorld(t, newJob("a").role("worker", 1, "train.py").TrainingJob)
		w.fail = func(_ string, o client.Object) error {
			if _, ok := o.(*v1alpha1.Gang); ok {
				return c.err
			}
			return nil
		}
		if result, err := w.reconcile("a"); err == nil && result.RequeueAfter != forbiddenRetry {
			t.Errorf("no error, so no retry: %+v", result)
		}
		if j := w.job("a"); j.Status.Phase != c.phase || !strings.Contains(j.Status.Message, c.want) {
			t.Errorf("%+v", j.Status)
		}
	}
}

// A quota that refuses objects that members need keeps the gang from being made: it would hold GPUs
// with members that cannot start.
func TestWhatMembersNeedIsRefused(t *testing.T) {
	for name, kind := range map[string]client.Object{"services": &corev1.Service{}, "persistentvolumeclaims": &corev1.PersistentVolumeClaim{}} {
		w := newWorld(t, newJob("a").role("worker", 2, "train.py").TrainingJob)
		refuses := true
		w.fail = func(verb string, o client.Object) error {
			if refuses && verb == "create" && reflect.TypeOf(o) == reflect.TypeOf(kind) {
				return apierrors.NewForbidden(schema.GroupResource{Resource: name}, o.GetName(), errors.New("exceeded quota: few, limited: count/"+name+"=0"))
			}
			return nil
		}
		w.settle("a")
		if got := w.objects(); !strings.HasPrefix(got, "0 gangs") {
			t.Errorf("%s: %s", name, got)
		}
		if j := w.job("a"); !strings.Contains(j.Status.Message, "exceeded quota: few") {
			t.Errorf("%s: it says %q", name, j.Status.Message)
		}
		refuses = false
		w.settle("a")
		if got := w.objects(); got != "1 gangs, 1 services, 1 claims" {
			t.Errorf("%s: once it is allowed: %s", name, got)
		}
	}
}

// TestEveryWriteInTurnFails walks a job through its whole life, failing the nth
// write, for every n; the job must come out the same.
func TestEveryWriteInTurnFails(t *testing.T) {
	broken := errors.New("connection reset by peer")
	live := func(t *testing.T, n int) (writes int, end string) {
		ttl := int32(0)
		limit := int64(3600)
		w := newWorld(t, newJob("a").role("chief", 1, "train.py").role("ps", 1, "ps.py").requirements("x").
			with(func(s *v1alpha1.TrainingJobSpec) { s.ActiveDeadlineSeconds = &limit }).TrainingJob)
		w.fail = func(string, client.Object) error {
			writes++
			if writes == n+1 {
				return broken
			}
			return nil
		}
		settle := func() {
			for range 5 {
				if _, err := w.reconcile("a"); err != nil && !errors.Is(err, broken) {
					t.Fatal(err)
				}
			}
		}
		w.makers.build = environment.State{Phase: environment.Building, Message: "building"}
		settle()
		w.makers.build = environment.State{Phase: environment.Ready, Key: "key"}
		settle()
		w.gangIs("a", func(s *v1alpha1.GangStatus) {
			s.Phase, s.StartTime = v1alpha1.GangRunning, &metav1.Time{Time: start}
		})
		settle()
		w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = true })
		settle()
		w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.Suspend = false })
		settle()
		w.gangIs("a", func(s *v1alpha1.GangStatus) { s.Phase = v1alpha1.GangSucceeded })
		settle()
		j := w.job("a")
		end = fmt.Sprint(w.objects(), j.Status.Phase, j.Status.Message, w.gang("a").Spec.Suspend, len(j.Status.Conditions))
		w.change("a", func(s *v1alpha1.TrainingJobSpec) { s.TTLSecondsAfterFinished = &ttl })
		settle()
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a"}, &v1alpha1.TrainingJob{}); !apierrors.IsNotFound(err) {
			t.Errorf("still there: %v", err)
		}
		return writes, end
	}
	writes, want := live(t, -1)
	if writes < 8 {
		t.Fatalf("only %d writes", writes)
	}
	for n := range writes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if _, got := live(t, n); got != want {
				t.Errorf("%s instead of %s", got, want)
			}
		})
	}
}

func TestChangesWakeJobsThatArePrepared(t *testing.T) {
	running := newJob("running").role("worker", 1, "train.py")
	running.Status.Phase = v1alpha1.JobRunning
	preparing := newJob("preparing").role("worker", 1, "train.py")
	preparing.Status.Phase = v1alpha1.JobPreparing
	w := newWorld(t, running.TrainingJob, preparing.TrainingJob, newJob("new").role("worker", 1, "train.py").TrainingJob)
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan event.GenericEvent, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.controller.forward(ctx, out)
	}()
	w.makers.changes <- "key"
	names := (<-out).Object.GetName() + " " + (<-out).Object.GetName()
	cancel()
	<-done
	if names != "new preparing" || len(out) != 0 {
		t.Errorf("%s and %d more", names, len(out))
	}
}
