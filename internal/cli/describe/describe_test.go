package describe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func reader(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), resourcev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string {
			event, ok := o.(*corev1.Event)
			if !ok {
				return nil
			}
			return []string{event.InvolvedObject.Kind}
		}).Build()
}

func TestPage(t *testing.T) {
	created := time.Now().Add(-time.Hour).Truncate(time.Second)
	two, three := resource.MustParse("2"), int32(3)
	job := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "mnist", UID: "job", CreationTimestamp: metav1.NewTime(created),
			Annotations: map[string]string{v1alpha1.AnnotationSubmitter: "ada@box"},
		},
		Spec: v1alpha1.TrainingJobSpec{
			Framework: v1alpha1.FrameworkTensorFlow,
			Roles: []v1alpha1.Role{
				{Name: "worker", Replicas: &three, GPUs: &two, GPUModels: []string{"A100"}, Script: "train.py", Args: []string{"--lr=1"}},
			},
			Queue: "vision", PriorityClassName: "urgent", Resumable: true, ExpectedRunTime: &metav1.Duration{Duration: 2 * time.Hour},
			Code:        &v1alpha1.Code{Snapshot: "sha256:" + strings.Repeat("ab", 32)},
			Environment: &v1alpha1.Environment{Requirements: "numpy\n# comment\ntensorflow\n", Python: "3.11"},
		},
		Status: v1alpha1.TrainingJobStatus{
			Phase: v1alpha1.JobRunning, Message: "all members run", Evictions: 1, EvictedFor: "vision/resnet",
			Roles: []v1alpha1.RoleStatus{{Name: "worker", Wanted: 3, Running: 1, Failed: 2}},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "mnist-worker-0", UID: "pod", CreationTimestamp: metav1.NewTime(created),
			Labels:      map[string]string{v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0"},
			Annotations: map[string]string{v1alpha1.AnnotationGPUs: "GPU-a,GPU-b", v1alpha1.AnnotationPort: "2222"},
		},
		Spec: corev1.PodSpec{NodeName: "box", Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
		}}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", Annotations: map[string]string{
		v1alpha1.AnnotationInventory: `{"gpus":[{"index":0,"uuid":"GPU-a","model":"A100","memoryMiB":1},{"index":1,"uuid":"GPU-b","model":"A100","memoryMiB":1,"simulated":true}]}`,
	}}}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod.Name, UID: "pod"},
		Reason:         "OOMKilling", Message: "memory limit\nreached", LastTimestamp: metav1.NewTime(created), Type: corev1.EventTypeWarning,
	}
	stranger := event.DeepCopy()
	stranger.Name, stranger.InvolvedObject.UID, stranger.Reason = "f", "other", "Stranger"
	seen, err := observe(t.Context(), reader(t, job, pod, node, event, stranger), "default", "mnist")
	if err != nil {
		t.Fatal(err)
	}
	seen.now = created.Add(time.Hour)
	var text strings.Builder
	if err := seen.write(&text, terminal.Coloured(false)); err != nil {
		t.Fatal(err)
	}
	want := `mnist  Running: all members run

Namespace    default
Framework    TensorFlow
Queue        vision
Priority     urgent
Submitted    ` + created.Local().Format("2006-01-02 15:04:05") + ` (1h 0m ago) by ada@box
Expected     to run for 2h 0m
Resumable    yes: it may be stopped to make room, and goes on from its last checkpoint
Restarts     0 of at most 6
Evictions    1, for vision/resnet
Environment  2 requirements, Python 3.11
Code         snapshot sha256:abababababab
Checkpoints  new claim of 10Gi

ROLE    WANTED  PENDING  RUNNING  SUCCEEDED  FAILED  GPUS EACH  RUNS
worker  3       0        1        0          2       2 A100     train.py --lr=1

MEMBER    STATE      NODE  GPUS                            PORT  AGE    NOTE
worker-0  OOMKilled  box   0 (A100), 1 (A100, simulated)   2222  1h 0m  exit code 137

SINCE  EVENT       OF              WHAT
1h 0m  OOMKilling  mnist-worker-0  memory limit
`
	want = strings.Replace(strings.Replace(want, "GPUS                            PORT", "GPUS                           PORT", 1), "simulated)   2222", "simulated)  2222", 1)
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestHeldIdle(t *testing.T) {
	seconds := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	for want, status := range map[string]v1alpha1.TrainingJobStatus{
		"":                                       {},
		"12.5 GPU seconds until all had started": {GPUStartSeconds: seconds("12500m")},
		"12.5 GPU seconds until all had started, 0.4 GPU seconds while they ended": {GPUStartSeconds: seconds("12500m"), GPUEndSeconds: seconds("400m")},
	} {
		if got := heldIdle(status); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHeldForData(t *testing.T) {
	for want, status := range map[string]v1alpha1.TrainingJobStatus{
		"": {},
		"its place was held for 12.5 seconds until that was on its nodes":                   {DataSeconds: resource.NewMilliQuantity(12500, resource.DecimalSI), DataGPUSeconds: &resource.Quantity{}},
		"its place was held for 12.5 seconds until that was on its nodes, 50.0 GPU seconds": {DataSeconds: resource.NewMilliQuantity(12500, resource.DecimalSI), DataGPUSeconds: resource.NewMilliQuantity(50000, resource.DecimalSI)},
	} {
		if got := heldForData(status); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestEvictions(t *testing.T) {
	for want, status := range map[string]v1alpha1.TrainingJobStatus{
		"":                      {},
		"1, for vision/resnet":  {Evictions: 1, EvictedFor: "vision/resnet"},
		"3, the last for nlp/b": {Evictions: 3, EvictedFor: "nlp/b"},
	} {
		if got := evictions(status); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Where nobody reads what members report, that is said; once somebody did, what
// they said.
func TestReportsThatNobodyReads(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationReports: v1alpha1.ReportsUnread}}}
	progress := &v1alpha1.Progress{Percent: "25%", DoneMillionths: 250_000}
	for name, c := range map[string]struct {
		pods     []corev1.Pod
		progress *v1alpha1.Progress
		want     string
	}{
		"somebody would read":         {[]corev1.Pod{{}}, nil, ""},
		"nobody reads":                {[]corev1.Pod{{}, pod}, nil, "not read: the cluster has no agents of Muster"},
		"an agent has come meanwhile": {[]corev1.Pod{pod}, progress, "25%"},
		"the job has no pods":         {nil, nil, ""},
	} {
		p := &page{job: &v1alpha1.TrainingJob{}, pods: c.pods}
		p.job.Status.Progress = c.progress
		if got := p.progress(); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: it says %q, want %q", name, got, c.want)
		}
	}
}

func TestNoSuchJob(t *testing.T) {
	near := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist"}}
	_, err := observe(t.Context(), reader(t, near), "default", "mnits")
	if code, _ := exit.Of(err); code != exit.Missing || !strings.HasSuffix(err.Error(), "did you mean mnist?") {
		t.Errorf("error %v", err)
	}
}

// The page of a PyTorchJob shows the running job: the image and GPUs of its template, no claim, and
// the fields without effect.
func TestPageOfAForeignJob(t *testing.T) {
	one := int32(1)
	training := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cifar", UID: "job", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "kubeflow.org/v1", Kind: "PyTorchJob", Name: "cifar", UID: "owner", Controller: new(bool)},
		}},
		Spec: v1alpha1.TrainingJobSpec{
			Checkpoints: &v1alpha1.Checkpoints{None: true},
			Roles: []v1alpha1.Role{{Name: "worker", Replicas: &one, Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "pytorch", Image: "example.com/cifar:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("1")}},
			}}}}}},
		},
	}
	*training.OwnerReferences[0].Controller = true
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": map[string]any{"namespace": "default", "name": "cifar", "uid": "owner"},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Created", "message": "Muster runs it. Without effect: spec.elasticPolicy.metrics (the number of replicas stays as it is)."},
			map[string]any{"type": "Running", "message": "it runs"},
		}},
	}}
	seen, err := observe(t.Context(), reader(t, training, foreign), "default", "cifar")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := seen.write(&out, terminal.Coloured(false)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image example.com/cifar:1", "Checkpoints  none", "No effect    spec.elasticPolicy.metrics (the number of replicas stays as it is)\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
	if got := device.Asked(&training.Spec.Roles[0]); got != "1" {
		t.Errorf("GPUs each: %s", got)
	}
}
