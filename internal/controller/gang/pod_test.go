package gang

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
)

func testPlacement() *v1alpha1.Placement {
	return &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "resnet-2", UID: "placement-uid"},
		Spec: v1alpha1.PlacementSpec{
			Gang: "resnet", GangUID: "gang-1", Attempt: 2, Epoch: 7, Nodes: []string{"here"},
			Members: []v1alpha1.PlacedMember{
				{Role: "ps", Port: 20000},
				{Role: "worker", Port: 20001, GPUs: []string{"GPU-0"}},
				{Role: "worker", Index: 1, Port: 20002, GPUs: []string{"GPU-1", "GPU-2"}},
			},
		},
	}
}

// TestNewPodWithAShare asks for the part of a GPU that the role wants, and says
// which part the member was given.
func TestNewPodWithAShare(t *testing.T) {
	g, p := testGang(), testPlacement()
	milli, memory := resource.MustParse("250m"), resource.MustParse("8Gi")
	g.Spec.Roles[1].GPUs, g.Spec.Roles[1].GPUMemory = &milli, &memory
	p.Spec.Members[1].Share = &v1alpha1.GPUShare{Milli: 250, MemoryMiB: 8192}
	pod, err := memberpod.New(g, p, p.Spec.Members[1], v1alpha1.ResourceGPU, told(t, table(g, membersOf(p), func(string) *corev1.Node { return nil })))
	if err != nil {
		t.Fatal(err)
	}
	limits := pod.Spec.Containers[0].Resources.Limits
	share, bytes := limits[v1alpha1.ResourceGPUMilli], limits[v1alpha1.ResourceGPUMemory]
	if _, whole := limits[v1alpha1.ResourceGPU]; whole || share.Value() != 250 || bytes.Value() != 8<<30 {
		t.Errorf("it asks for %v", limits)
	}
	requests := pod.Spec.Containers[0].Resources.Requests
	if q := requests[v1alpha1.ResourceGPUMilli]; q.Cmp(share) != 0 {
		t.Errorf("it requests %v", requests)
	}
	if got := pod.Annotations[v1alpha1.AnnotationGPUShare]; got != `{"milli":250,"memoryMiB":8192}` || pod.Annotations[v1alpha1.AnnotationGPUs] != "GPU-0" {
		t.Errorf("it was given %s of %s", got, pod.Annotations[v1alpha1.AnnotationGPUs])
	}
	if got := memberpod.GPUs(pod); got != 0.25 {
		t.Errorf("that counts as %v GPUs", got)
	}
}

func TestNewPod(t *testing.T) {
	g, p := testGang(), testPlacement()
	g.Spec.Roles[1].Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DIR", Value: "$(MUSTER_ROOT)/x"}, {Name: "INDEX", Value: "mine"}}
	node := testNode(4)
	pod, err := memberpod.New(g, p, p.Spec.Members[2], v1alpha1.ResourceGPU, told(t, table(g, membersOf(p), func(string) *corev1.Node { return node })))
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{
		v1alpha1.LabelGang: "resnet", v1alpha1.LabelJob: "resnet", v1alpha1.LabelRole: "worker",
		v1alpha1.LabelIndex: "1", v1alpha1.LabelAttempt: "2", v1alpha1.LabelGuarded: "true",
	}
	wantAnnotations := map[string]string{v1alpha1.AnnotationGPUs: "GPU-1,GPU-2", v1alpha1.AnnotationPort: "20002", v1alpha1.AnnotationEpoch: "7", v1alpha1.AnnotationPlacement: "resnet-2 placement-uid",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
	if diff := cmp.Diff(wantLabels, pod.Labels) + cmp.Diff(wantAnnotations, pod.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := pod.Spec
	if pod.Name != "resnet-worker-1" || s.Hostname != "resnet-worker-1" || s.Subdomain != "resnet" || s.NodeName != "here" ||
		s.SchedulerName != v1alpha1.SchedulerName || s.RestartPolicy != corev1.RestartPolicyNever || *s.AutomountServiceAccountToken {
		t.Errorf("pod %s: %+v", pod.Name, s)
	}
	limit, request := s.Containers[0].Resources.Limits[v1alpha1.ResourceGPU], s.Containers[0].Resources.Requests[v1alpha1.ResourceGPU]
	if limit.Value() != 1 || request.Value() != 1 {
		t.Errorf("GPUs: limit %s, request %s", limit.String(), request.String())
	}
	var names []string
	for _, v := range s.Containers[0].Env {
		names = append(names, v.Name)
	}
	if diff := cmp.Diff([]string{"MUSTER_ROOT", "ROLE", "PS_HOSTS", "WORKER_HOSTS", "TF_CONFIG", "DIR", "INDEX"}, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if len(g.Spec.Roles[1].Template.Labels) != 0 {
		t.Error("the gang's template was changed")
	}
}

func TestPeersByName(t *testing.T) {
	g, p := testGang(), testPlacement()
	peers := table(g, membersOf(p), func(string) *corev1.Node { return &corev1.Node{} })
	if got := peers.Members[1].Host; got != "resnet-worker-0.resnet.vision.svc" {
		t.Errorf("host %q", got)
	}
	if got := table(g, membersOf(p), func(string) *corev1.Node { return testNode(1) }).Members[1].Host; got != "127.0.0.1" {
		t.Errorf("host on a shared network %q", got)
	}
}

func TestHostname(t *testing.T) {
	long := strings.Repeat("x", 80)
	if got := memberpod.Hostname(long); len(got) != 63 || got == memberpod.Hostname(long+"y") {
		t.Errorf("hostname %q", got)
	}
}

func TestFailureText(t *testing.T) {
	terminated := func(s corev1.ContainerStateTerminated) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &s}}}}
	}
	tests := map[string]corev1.PodStatus{
		"worker-1 ended with exit code 3":                  terminated(corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}),
		"worker-1 ended with exit code 137 (OOMKilled)":    terminated(corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}),
		"worker-1 was ended by signal 9":                   terminated(corev1.ContainerStateTerminated{ExitCode: 137, Signal: 9}),
		"worker-1 failed (Evicted): the node ran out of x": {Reason: "Evicted", Message: "the node ran out of x"},
	}
	for want, status := range tests {
		if got := memberstatus.FailureText("worker-1", &corev1.Pod{Status: status}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStartTime(t *testing.T) {
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 5, 4, 14, 0, seconds, 0, time.UTC))
	}
	taken := at(0)
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(5)}}}
	done := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(3)}}}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	for name, c := range map[string]struct {
		containers []corev1.ContainerStatus
		want       metav1.Time
	}{
		"nothing said":        {nil, taken},
		"not started":         {[]corev1.ContainerStatus{waiting}, taken},
		"running":             {[]corev1.ContainerStatus{running}, at(5)},
		"the first of two":    {[]corev1.ContainerStatus{running, done, waiting}, at(3)},
		"ended without times": {[]corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}, taken},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: &taken, ContainerStatuses: c.containers}}
		if got := memberstatus.StartTime(pod); !got.Equal(&c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// membersOf are the members of one placement.
func membersOf(p *v1alpha1.Placement) []place {
	var out []place
	for m := range p.Spec.Each() {
		out = append(out, place{p, m})
	}
	return out
}
