package gang

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/startup"
)

// started is a container that ran.
var started = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, StartedAt: metav1.Unix(1, 0)}}}}

func TestWhatAKubeletRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"no CPU":                {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}, true},
		"no GPU":                {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfnvidia.com/gpu"}, true},
		"no device":             {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError"}, true},
		"evicted before it ran": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, true},
		"evicted while it ran":  {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", ContainerStatuses: started}, false},
		"an init container ran": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", InitContainerStatuses: started}, false},
		"too long":              {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, false},
		"it failed":             {corev1.PodStatus{Phase: corev1.PodFailed}, false},
		"it waits":              {corev1.PodStatus{Phase: corev1.PodPending, Reason: "Evicted"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := startup.Refused(&corev1.Pod{Status: tt.status}); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// A member that a kubelet does not take sends the whole gang back, and its node
// cools off.
func TestKubeletRefusesAMember(t *testing.T) {
	w := newWorld(t, fault{})
	w.exits["resnet-worker-1"] = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfnvidia.com/gpu", Message: "requested 1, available 0"}
	w.must(w.api.Create(t.Context(), testGang()))
	w.until("it is given back", func() bool {
		s := w.gang(t.Context()).Status
		return s.Phase == v1alpha1.GangPending && s.Attempt == 1
	})
	w.holdsNothing()
	s := w.gang(t.Context()).Status
	if want := "node here refused worker-1: OutOfnvidia.com/gpu: requested 1, available 0"; s.Message != want {
		t.Errorf("message %q, want %q", s.Message, want)
	}
	if len(s.Avoided) != 1 || s.Avoided[0].Node != "here" || s.Avoided[0].Until.Sub(w.clock) > coolOff || s.Refusals != 1 {
		t.Errorf("avoided %+v after %d refusals", s.Avoided, s.Refusals)
	}
	w.until("it runs, once the node has cooled off", func() bool {
		s := w.gang(t.Context()).Status
		return s.Phase == v1alpha1.GangRunning && len(s.Avoided) == 0
	})
}

// A pod waits, is stuck when its time is over, and not while its init containers
// run.
func TestStuck(t *testing.T) {
	made := time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC)
	waits := func(reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such image"}}}}
	}
	for name, tt := range map[string]struct {
		status  corev1.PodStatus
		deleted bool
		timeout time.Duration
		began   time.Duration
		// until is when it is given up; 0: never.
		until time.Duration
	}{
		"it is being created":       {status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ContainerCreating")}, until: startTimeout},
		"the gang says how long":    {status: corev1.PodStatus{Phase: corev1.PodPending}, timeout: time.Minute, until: time.Minute},
		"the image is not there":    {status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ImagePullBackOff")}, until: startup.Image.Patience(startTimeout)},
		"the name is no image's":    {status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("InvalidImageName")}, until: time.Nanosecond},
		"nobody watched before":     {status: corev1.PodStatus{Phase: corev1.PodPending}, began: time.Hour, until: time.Hour + startTimeout},
		"an init container runs":    {status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}},
		"it runs":                   {status: corev1.PodStatus{Phase: corev1.PodRunning}},
		"it is being deleted":       {status: corev1.PodStatus{Phase: corev1.PodPending}, deleted: true},
		"one beside it runs":        {status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "beside", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}, until: startTimeout},
		"an init container has run": {status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(made.Add(time.Hour))}}}}}, until: time.Hour + startTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed{gang: testGang(), began: made.Add(tt.began)}
			if tt.timeout > 0 {
				o.gang.Spec.StartTimeout = &metav1.Duration{Duration: tt.timeout}
			}
			always := corev1.ContainerRestartPolicyAlways
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: tt.status}
			p.Spec.InitContainers = []corev1.Container{{Name: "beside", RestartPolicy: &always}, {Name: "before"}}
			if tt.deleted {
				p.DeletionTimestamp = &p.CreationTimestamp
			}
			for _, at := range []time.Duration{0, tt.until - time.Second, tt.until, 48 * time.Hour} {
				o.now = made.Add(at)
				if want := tt.until > 0 && at >= tt.until-time.Nanosecond; o.stuck(p) != want {
					t.Errorf("after %s: stuck is %v", at, !want)
				}
			}
		})
	}
}

// An image that can never be pulled ends the gang after a few attempts, with the
// kubelet's words.
func TestImageThatIsNotThere(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	for range 2000 {
		if w.gang(t.Context()).Status.Phase == v1alpha1.GangFailed {
			break
		}
		if w.exits["resnet-worker-1"].Phase == "" {
			w.exits["resnet-worker-1"] = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "pull access denied"}},
			}}}
		}
		w.round()
	}
	w.phase(v1alpha1.GangFailed)
	w.holdsNothing()
	s := w.gang(t.Context()).Status
	if want := "worker-1 did not start on node here within 50s, and neither did the 5 attempts before: ErrImagePull: pull access denied"; s.Message != want {
		t.Errorf("message %q, want %q", s.Message, want)
	}
	if s.Attempt != startup.Image.Attempts() || s.Reason != v1alpha1.ReasonCannotStart || !strings.Contains(s.Avoided[0].Why, "ErrImagePull") {
		t.Errorf("%d attempts; avoided %+v", s.Attempt, s.Avoided)
	}
}

// What a node complains about is said while it tries again, and no longer.
func TestWhatKeepsAMemberFromStarting(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	waits := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}}
	}
	lacks := waits("CreateContainerConfigError", "couldn't find key token in Secret default/late")
	w.exits["resnet-worker-0"], w.exits["resnet-worker-1"] = lacks, lacks
	says := func(want string) {
		t.Helper()
		for range 20 {
			w.round()
		}
		if s := w.gang(t.Context()).Status; s.Message != want {
			t.Errorf("%s says %q, want %q", s.Phase, s.Message, want)
		}
	}
	says("worker-0 is not started yet: node here reports CreateContainerConfigError: couldn't find key token in Secret default/late (and 1 more)")
	w.exits["resnet-worker-0"] = corev1.PodStatus{Phase: corev1.PodRunning}
	says("worker-1 is not started yet: node here reports CreateContainerConfigError: couldn't find key token in Secret default/late")
	w.exits["resnet-worker-1"] = corev1.PodStatus{Phase: corev1.PodRunning}
	says("")
}

// The only member of a gang is not named in what keeps it from starting.
func TestTheOnlyMemberIsNotNamed(t *testing.T) {
	w := newWorld(t, fault{})
	alone := testGang()
	alone.Spec.Roles = alone.Spec.Roles[:1]
	alone.Spec.Roles[0].Replicas, alone.Spec.DoneWhen = 1, []string{alone.Spec.Roles[0].Name}
	w.must(w.api.Create(t.Context(), alone))
	w.exits["resnet-"+alone.Spec.Roles[0].Name+"-0"] = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "no key"}},
	}}}
	for range 20 {
		w.round()
	}
	if got, want := w.gang(t.Context()).Status.Message, "it is not started yet: node here reports CreateContainerConfigError: no key"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
