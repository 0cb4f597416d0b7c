package workshop

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func aBuild(t *testing.T) build {
	t.Helper()
	b, err := order(environment.Request{Requirements: "numpy", Image: "python:3.13"}, "python:3.13", nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func aJob(name string) *v1alpha1.TrainingJob {
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, UID: types.UID("uid-" + name)}}
	job.Spec.Roles = []v1alpha1.Role{{Name: "worker"}}
	return job
}

// waits is the status of a container that does not start.
func waits(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

// ends is the status of a container that ended so long ago.
func ends(phase corev1.PodPhase, since time.Duration, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", Message: message, FinishedAt: ago(since),
		}}}}
	}
}

func onNode(since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "cpu-1"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(since)}}
	}
}

func TestDecide(t *testing.T) {
	type edits []func(*corev1.Pod)
	const (
		building = environment.Building
		failed   = environment.Failed
	)
	for name, c := range map[string]struct {
		pod   edits // nil: there is none
		phase environment.Phase
		do    action
		says  string
	}{
		"nobody builds it":    {nil, building, create, "in the image python:3.13"},
		"it waits for a node": {edits{}, building, nothing, "waits for a node"},
		"and that is said": {edits{func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has room"}}
		}}, building, nothing, "waits for a node: no node has room"},
		"it starts":               {edits{onNode(time.Second), waits("ContainerCreating", "")}, building, nothing, "starts on node cpu-1"},
		"no image yet":            {edits{onNode(20 * time.Second), waits("ErrImagePull", "not found")}, building, nothing, "ErrImagePull"},
		"no image":                {edits{onNode(2 * time.Minute), waits("ImagePullBackOff", "not found")}, failed, nothing, "cannot start in the image python:3.13 on node cpu-1: ImagePullBackOff: not found"},
		"no name of an image":     {edits{onNode(time.Second), waits("InvalidImageName", "bad")}, failed, nothing, "InvalidImageName"},
		"the node cannot run it":  {edits{onNode(time.Second), waits("Unsupported", "spec.containers[0].image: this node cannot run it")}, failed, nothing, "Unsupported: spec.containers[0].image"},
		"no agent":                {edits{onNode(11 * time.Minute), waits("ContainerCreating", "")}, failed, nothing, "did not start on node cpu-1 within 10m0s"},
		"it runs":                 {edits{onNode(time.Minute), func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }}, building, nothing, "being installed by pod build-"},
		"pip said no":             {edits{onNode(time.Minute), ends(corev1.PodFailed, time.Second, "ERROR: No matching distribution found for x\n")}, failed, nothing, "ERROR: No matching distribution found for x"},
		"a password is not shown": {edits{ends(corev1.PodFailed, time.Second, "ERROR: https://me:secret@host/simple")}, failed, nothing, "https://****@host/simple"},
		"it said nothing":         {edits{ends(corev1.PodFailed, time.Second, "")}, failed, nothing, "exit code 1"},
		"a failure of old":        {edits{ends(corev1.PodFailed, time.Minute, "ERROR: x")}, building, remove, "tried again"},
		"it took too long":        {edits{ends(corev1.PodFailed, time.Second, "x"), func(p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" }}, failed, nothing, "within 1h0m0s"},
		"it was evicted":          {edits{onNode(time.Minute), ends(corev1.PodFailed, time.Second, "x"), func(p *corev1.Pod) { p.Status.Reason = "Evicted" }}, building, remove, "taken off node cpu-1 (Evicted)"},
		"its node was started anew": {edits{onNode(time.Minute), ends(corev1.PodFailed, time.Second, ""), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Terminated.Reason = "ContainerStatusUnknown"
		}}, building, remove, "taken off node cpu-1 (ContainerStatusUnknown)"},
		"its node was drained": {edits{onNode(time.Minute), ends(corev1.PodFailed, time.Second, "x"), func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
		}}, building, remove, "EvictionByEvictionAPI"},
		"it is on its way": {edits{onNode(time.Minute), ends(corev1.PodSucceeded, time.Minute, "")}, building, nothing, "node cpu-1 brings it to the store"},
		"it does not come": {edits{onNode(time.Hour), ends(corev1.PodSucceeded, time.Hour+time.Second, "")}, failed, nothing, "did not come to the store"},
		"it did not come":  {edits{onNode(time.Hour), ends(corev1.PodSucceeded, 2*time.Hour, "")}, building, remove, "tried again"},
		"there is no room": {edits{onNode(time.Hour), ends(corev1.PodSucceeded, time.Second, ""), func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationRefused: "the quota is used up"}
		}}, failed, nothing, "the quota is used up"},
		"it is going":   {edits{func(p *corev1.Pod) { at := ago(0); p.DeletionTimestamp = &at }}, building, nothing, "is gone"},
		"another's":     {edits{func(p *corev1.Pod) { p.Labels = nil }}, building, nothing, "in the way"},
		"another key's": {edits{func(p *corev1.Pod) { p.Spec.Volumes[0].CSI.VolumeAttributes["key"] = "x" }}, building, nothing, "in the way"},
	} {
		t.Run(name, func(t *testing.T) {
			o := observed{build: aBuild(t), now: noon}
			if c.pod != nil {
				o.pod = New(Options{}).options.podFor(customer{namespace: "vision"}, o.build)
				o.pod.Status.Phase = corev1.PodPending
				for _, edit := range c.pod {
					edit(o.pod)
				}
			}
			state, do := decide(o)
			if state.Phase != c.phase || do != c.do || !strings.Contains(state.Message, c.says) || state.Key != o.key {
				t.Errorf("it is %s, to do %q, and says %q; want %s, %q, %q", state.Phase, do, state.Message, c.phase, c.do, c.says)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	one := aBuild(t)
	for name, c := range map[string]struct {
		request environment.Request
		same    bool
		err     string
	}{
		"the same in other words":  {environment.Request{Requirements: "# mine\n  numpy  \n", Image: "python:3.13"}, true, ""},
		"other requirements":       {environment.Request{Requirements: "numpy==2", Image: "python:3.13"}, false, ""},
		"another image":            {environment.Request{Requirements: "numpy", Image: "python:3.12"}, false, ""},
		"a version":                {environment.Request{Requirements: "numpy", Image: "python:3.13", Python: "3.13"}, false, ""},
		"a folder":                 {environment.Request{Path: "/env", Image: "python:3.13"}, false, "a folder of one machine"},
		"no image":                 {environment.Request{Requirements: "numpy"}, false, "no image to install"},
		"a file beside":            {environment.Request{Requirements: "-r other.txt", Image: "python:3.13"}, false, "includes another file"},
		"a secret in what is told": {environment.Request{Requirements: "-r https://me:secret@host/x", Image: "python:3.13"}, false, "****"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := order(c.request, c.request.Image, nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("it says %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || (got.key == one.key) != c.same {
				t.Errorf("key %s, %v; that of numpy in python:3.13 is %s", got.key, err, one.key)
			}
		})
	}
}
