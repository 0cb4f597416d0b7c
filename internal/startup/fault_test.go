package startup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waits(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "main", Image: "team/large:7", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func pending(containers ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: containers}}
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func warned(reason, message string, after time.Duration) corev1.Event {
	return corev1.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		FirstTimestamp: metav1.NewTime(noon), LastTimestamp: metav1.NewTime(noon.Add(after)),
	}
}

// Reports of nodes, and their consequences for the attempt.
func TestFaults(t *testing.T) {
	made := pending(waits("ContainerCreating", ""))
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	beside := pending(waits("PodInitializing", ""))
	beside.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "muster-data", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "muster: reaching the agent: no such file\n"}},
	}}
	silent := beside.DeepCopy()
	silent.Status.InitContainerStatuses[0].LastTerminationState.Terminated.Message = ""
	for name, tt := range map[string]struct {
		pod      *corev1.Pod
		events   []corev1.Event
		words    string
		cause    Cause
		patience time.Duration
		attempts int32
	}{
		"a key that is not there": {pod: pending(waits("CreateContainerConfigError", "couldn't find key token in Secret default/late")), words: "CreateContainerConfigError: couldn't find key token in Secret default/late", cause: Configuration, patience: 50 * time.Second, attempts: Forever},
		"an image":                {pod: pending(waits("ErrImagePull", "pull access denied")), words: "ErrImagePull: pull access denied", cause: Image, patience: 50 * time.Second, attempts: 6},
		"an image, in between":    {pod: pending(waits("ImagePullBackOff", "Back-off pulling image")), words: "ImagePullBackOff: Back-off pulling image", cause: Image, patience: 50 * time.Second, attempts: 6},
		"an image never pulled":   {pod: pending(waits("ErrImageNeverPull", "")), words: "ErrImageNeverPull", cause: Hopeless, attempts: 3},
		"no image's name":         {pod: pending(waits("InvalidImageName", "a b")), words: "InvalidImageName: a b", cause: Never, attempts: 1},
		"a mount of nothing":      {pod: pending(waits("ContainerCreating", "")), events: []corev1.Event{warned("FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "absent" not found`, 4*time.Second)}, words: `FailedMount: MountVolume.SetUp failed for volume "v" : configmap "absent" not found`, cause: Configuration, patience: 50 * time.Second, attempts: Forever},
		"a key of a volume":       {pod: pending(waits("ContainerCreating", "")), events: []corev1.Event{warned("FailedMount", `references non-existent secret key: token`, 0)}, words: "FailedMount: references non-existent secret key: token", cause: Configuration, patience: 50 * time.Second, attempts: Forever},
		"a mount that fails":      {pod: pending(waits("ContainerCreating", "")), events: []corev1.Event{warned("FailedMount", "mount.nfs: Connection refused", 0)}, words: "FailedMount: mount.nfs: Connection refused", cause: Volume, patience: 50 * time.Second, attempts: Forever},
		"a device":                {pod: pending(), events: []corev1.Event{warned("FailedPrepareDynamicResources", "device is held", 0)}, words: "FailedPrepareDynamicResources: device is held", cause: Node, patience: 3 * time.Minute, attempts: 6},
		"the last of two":         {pod: pending(), events: []corev1.Event{warned("FailedMount", "later", time.Minute), warned("FailedAttachVolume", "earlier", time.Second)}, words: "FailedMount: later", cause: Volume, patience: 50 * time.Second, attempts: Forever},
		"a sidecar":               {pod: beside, words: "CrashLoopBackOff: container muster-data: muster: reaching the agent: no such file", cause: Beside, patience: 3 * time.Minute, attempts: 3},
		"a silent sidecar":        {pod: silent, words: "CrashLoopBackOff: container muster-data: exit code 1", cause: Beside, patience: 3 * time.Minute, attempts: 3},
		"Muster's node waits":     {pod: pending(waits("ContainerCreating", "waiting for the claim")), words: "ContainerCreating: waiting for the claim", cause: Slow, patience: 10 * time.Minute, attempts: 3},
		// None of these is a fault.
		"it is being made":             {pod: pending(waits("ContainerCreating", "")), attempts: -1},
		"a mount that succeeded since": {pod: made, events: []corev1.Event{warned("FailedMount", "not synced yet", 0)}, attempts: -1},
		"another warning":              {pod: pending(), events: []corev1.Event{warned("Unhealthy", "probe", 0)}, attempts: -1},
		"a message that is no warning": {pod: pending(), events: []corev1.Event{{Type: corev1.EventTypeNormal, Reason: "FailedMount"}}, attempts: -1},
	} {
		t.Run(name, func(t *testing.T) {
			f, is := Of(tt.pod, tt.events)
			if is != (tt.attempts >= 0) {
				t.Fatalf("a fault: %t (%+v)", is, f)
			}
			if !is {
				return
			}
			if f.Words != tt.words || f.Cause != tt.cause || f.Cause.Patience(10*time.Minute) != tt.patience || f.Cause.Attempts() != tt.attempts {
				t.Errorf("got %+v, patience %s, %d attempts", f, f.Cause.Patience(10*time.Minute), f.Cause.Attempts())
			}
			if got := f.Cause.Patience(time.Second); got > time.Second {
				t.Errorf("with a limit of a second the patience is %s", got)
			}
			if len(tt.events) > 0 && !f.Since.Equal(noon) {
				t.Errorf("since %s", f.Since)
			}
		})
	}
}

// An attempt that cannot start holds its GPUs for less than a tenth of the time, in the
// long run.
func TestBackoff(t *testing.T) {
	last := time.Duration(0)
	for nth := int32(1); nth < 20; nth++ {
		d := Configuration.Backoff(nth)
		if d < last || d > 10*time.Minute {
			t.Errorf("after %d attempts %s", nth, d)
		}
		last = d
	}
	if share := Configuration.Patience(time.Hour).Seconds() / last.Seconds(); share > 0.1 {
		t.Errorf("it holds its GPUs for %.2f of the time", share)
	}
}

// Where there is no fault, the words are the best that the node gives.
func TestWords(t *testing.T) {
	always, started := corev1.ContainerRestartPolicyAlways, false
	beside := pending(waits("PodInitializing", ""))
	beside.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "muster-data", Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	beside.Spec.InitContainers = []corev1.Container{{Name: "muster-data", RestartPolicy: &always}}
	ready := beside.DeepCopy()
	ready.Status.InitContainerStatuses[0].Started = new(true)
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		events []corev1.Event
		want   string
	}{
		"a fault":                     {pending(waits("ErrImagePull", "denied")), nil, "ErrImagePull: denied"},
		"a warning":                   {pending(), []corev1.Event{warned("Unhealthy", " probe ", 0)}, "Unhealthy: probe"},
		"others wait for the sidecar": {beside, nil, "container muster-data runs, and is not ready: its log says why"},
		"the sidecar is ready":        {ready, nil, "PodInitializing (image team/large:7)"},
		"it is being made":            {pending(waits("ContainerCreating", "")), nil, "ContainerCreating (image team/large:7)"},
		"nothing is known":            {pending(), nil, "the node says nothing about it"},
	} {
		if got := Words(tt.pod, tt.events); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
