package gang

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// reading makes workers read data.
func reading(g *v1alpha1.Gang) *v1alpha1.Gang {
	g.Spec.Roles[1].Template.Spec.Volumes = []corev1.Volume{{Name: "muster-data-0", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver}}}}
	return g
}

// says is a pod that waits for its data, or has it since a time.
func (w *world) says(reason v1alpha1.DataReason, words string) corev1.PodStatus {
	c := corev1.PodCondition{Type: v1alpha1.ConditionPodData, Status: corev1.ConditionFalse, Reason: string(reason), Message: words, LastProbeTime: metav1.NewTime(w.clock)}
	if reason == v1alpha1.DataMounted {
		c.Status, c.LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(w.clock)
	}
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{c}}
}

// tells has a pod say so from now on; it does not run before it is let.
func (w *world) tells(pod string, s corev1.PodStatus) {
	w.t.Helper()
	w.exits[pod] = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}}}
	w.until("pod "+pod, func() bool {
		return w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: pod}, &corev1.Pod{}) == nil
	})
	p := &corev1.Pod{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: pod}, p))
	s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
	p.Status = s
	w.must(w.api.Status().Update(w.t.Context(), p))
}

// run lets a pod run.
func (w *world) run(pods ...string) {
	w.t.Helper()
	for _, pod := range pods {
		delete(w.exits, pod)
	}
}

// What is on its way is said, and for how long GPUs were held for it is counted once
// the last is mounted, which is not when the first is, nor when all run.
func TestGPUsHeldForData(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), reading(testGang())))
	w.tells("resnet-worker-0", w.says(v1alpha1.DataFetching, "fetching digits@main: 1.0 GB of 8.0 GB"))
	w.tells("resnet-worker-1", w.says(v1alpha1.DataRetrying, "digits@main: the bucket does not answer; trying again"))
	w.until("the worst is said", func() bool {
		return w.gang(t.Context()).Status.Message == "data: digits@main: the bucket does not answer; trying again (node here)"
	})
	began := w.gang(t.Context()).Status.DataSince
	if began == nil || w.gang(t.Context()).Status.Phase != v1alpha1.GangStarting {
		t.Fatalf("%+v", w.gang(t.Context()).Status)
	}
	w.tells("resnet-worker-1", w.says(v1alpha1.DataMounted, "its data is mounted"))
	w.until("the other is said", func() bool {
		return w.gang(t.Context()).Status.Message == "data: fetching digits@main: 1.0 GB of 8.0 GB (node here)"
	})
	if s := w.gang(t.Context()).Status; s.DataSeconds != nil {
		t.Errorf("counted already: %s", s.DataSeconds)
	}
	w.tells("resnet-worker-0", w.says(v1alpha1.DataMounted, "its data is mounted"))
	last := w.clock
	w.until("all is mounted", func() bool { return w.gang(t.Context()).Status.DataSince == nil })
	s := w.gang(t.Context()).Status
	held := last.Sub(began.Time).Seconds()
	if got := s.DataSeconds.AsApproximateFloat64(); got < held || got > held+2 || s.Message != "" {
		t.Errorf("held for %s seconds instead of %v; it says %q", s.DataSeconds, held, s.Message)
	}
	if one, two := s.DataSeconds.AsApproximateFloat64(), s.DataGPUSeconds.AsApproximateFloat64(); two != 2*one {
		t.Errorf("%v GPU seconds of 2 GPUs in %v seconds", two, one)
	}
	w.run("resnet-worker-0", "resnet-worker-1")
	w.phase(v1alpha1.GangRunning)
	if now := w.gang(t.Context()).Status; !now.DataSeconds.Equal(*s.DataSeconds) {
		t.Errorf("counted again: %s", now.DataSeconds)
	}
}

// Where data is there before anything is placed nobody says anything of it, and nothing
// is counted.
func TestDataThatWasThere(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), reading(testGang())))
	w.phase(v1alpha1.GangRunning)
	if s := w.gang(t.Context()).Status; s.DataSince != nil || s.DataSeconds != nil || s.DataGPUSeconds != nil {
		t.Errorf("%+v", s)
	}
}

// An attempt that ends before its data is there has held GPUs for it all the same, and
// the next one counts on.
func TestAnAttemptThatEndsBeforeItsData(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), reading(testGang())))
	w.tells("resnet-worker-0", w.says(v1alpha1.DataFetching, "fetching digits@main"))
	w.until("it is said", func() bool { return strings.HasPrefix(w.gang(t.Context()).Status.Message, "data: fetching") })
	w.evict("1")
	w.run("resnet-worker-0")
	w.evicted()
	w.until("it is counted", func() bool { return w.gang(t.Context()).Status.DataSeconds != nil })
	first := w.gang(t.Context()).Status.DataSeconds.DeepCopy()
	if first.IsZero() {
		t.Error("nothing was counted")
	}
	w.again()
	if s := w.gang(t.Context()).Status; !s.DataSeconds.Equal(first) || s.DataSince != nil {
		t.Errorf("an attempt of which nothing is said adds to %s: %s", first.String(), s.DataSeconds)
	}
}

// What is not there any more ends the gang at once, with the words of the node; what
// does not fit there is tried elsewhere, and ends it in the third place.
func TestDataThatNeverComes(t *testing.T) {
	for name, tt := range map[string]struct {
		reason   v1alpha1.DataReason
		attempts int32
		says     string
	}{
		"lost":         {v1alpha1.DataLost, 1, "worker-0 did not start on node here: data: gone for good"},
		"does not fit": {v1alpha1.DataUnfit, 3, "worker-0 did not start on node here, and neither did the 2 attempts before: data: gone for good"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fault{})
			w.must(w.api.Create(t.Context(), reading(testGang())))
			for n := range tt.attempts {
				w.clock = w.clock.Add(5 * time.Minute) // what was avoided is used again
				w.until("another attempt", func() bool {
					s := w.gang(t.Context()).Status
					return s.Attempt == n+1 && len(w.pods(t.Context())) == 3
				})
				w.tells("resnet-worker-0", w.says(tt.reason, "gone for good"))
				w.until("it is given up", func() bool { return w.gang(t.Context()).Status.Phase == v1alpha1.GangDraining })
			}
			w.phase(v1alpha1.GangFailed)
			if s := w.gang(t.Context()).Status; s.Attempt != tt.attempts || s.Message != tt.says {
				t.Errorf("after %d attempts it says %q", s.Attempt, s.Message)
			}
		})
	}
}

// What is fetched and goes on is waited for; what stands still, or what somebody gave a
// time for, is not.
func TestHowLongDataIsWaitedFor(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for name, tt := range map[string]struct {
		reason  v1alpha1.DataReason
		moved   time.Duration
		timeout time.Duration
		until   time.Duration
	}{
		"it goes on":            {v1alpha1.DataFetching, 9 * time.Minute, 0, 19 * time.Minute},
		"it never went on":      {v1alpha1.DataFetching, 0, 0, 10 * time.Minute},
		"the bucket is away":    {v1alpha1.DataRetrying, 9 * time.Minute, 0, 10 * time.Minute},
		"somebody knows better": {v1alpha1.DataFetching, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		"it does not fit":       {v1alpha1.DataUnfit, time.Minute, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := testGang()
			if tt.timeout > 0 {
				g.Spec.StartTimeout = &metav1.Duration{Duration: tt.timeout}
			}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began)}, Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: v1alpha1.ConditionPodData, Status: corev1.ConditionFalse, Reason: string(tt.reason), LastProbeTime: metav1.NewTime(began.Add(tt.moved)),
			}}}}
			at, waits := observed{gang: g, began: began}.startDeadline(p)
			if !waits || at.Sub(began) != tt.until {
				t.Errorf("until %s, waits: %v", at.Sub(began), waits)
			}
		})
	}
}
