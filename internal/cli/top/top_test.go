package top

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

const inventory = `{"gpus":[
 {"index":1,"uuid":"GPU-b","model":"A100","memoryMiB":81920,"foreign":[{"pid":4711,"user":"ada","command":"python notebook.py"}]},
 {"index":0,"uuid":"GPU-a","model":"A100","memoryMiB":81920},
 {"index":2,"uuid":"GPU-c","model":"A100","memoryMiB":81920},
 {"index":3,"uuid":"GPU-d","model":"A100","memoryMiB":81920,"unhealthy":"XID 79"}],"quarantined":["pid 9 python"]}`

func TestReport(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "box", Annotations: map[string]string{v1alpha1.AnnotationInventory: inventory}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	pod := func(index, gpus string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "vision", Name: "mnist-worker-" + index, CreationTimestamp: metav1.NewTime(now.Add(-90 * time.Minute)),
				Labels:      map[string]string{v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: index},
				Annotations: map[string]string{v1alpha1.AnnotationGPUs: gpus},
			},
			Spec: corev1.PodSpec{NodeName: "box", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			}}}},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	far := pod("0", "GPU-a,GPU-x", corev1.PodRunning)
	far.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.ConditionPodProgress, Message: `{"doneMillionths":425000}`}}
	pods := []corev1.Pod{far, pod("1", "GPU-c", corev1.PodSucceeded)}
	report := Build([]corev1.Node{node}, pods, nil, map[string]Measure{"GPU-a": {UtilizationPercent: 97, MemoryUsedMiB: 1024}})
	var text strings.Builder
	if err := report.write(&text, terminal.Coloured(false), now); err != nil {
		t.Fatal(err)
	}
	want := `NODE  STATE  CPUS       MEMORY              GPUS    PODS
box   Ready  0.5 of 16  1.0 GiB of 64.0 GiB  2 of 4  1

NODE  GPU   MODEL  BUSY  MEMORY               HELD BY                                                 SINCE
box   0     A100   97%   1.0 GiB of 80.0 GiB  vision/mnist worker-0, 42% done                         1h 30m
box   1     A100         80.0 GiB             process 4711 of ada (python notebook.py), not Muster's
box   2     A100         80.0 GiB             free
box   3     A100         80.0 GiB             not given out: XID 79
box   gone                                    vision/mnist worker-0; no longer there: GPU-x           1h 30m
box: left running, unknown to this Muster: pid 9 python
`
	want = strings.Replace(want, "MEMORY              GPUS", "MEMORY               GPUS", 1)
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestSharedGPU lists all who have parts of a GPU, and how much.
func TestSharedGPU(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box", Annotations: map[string]string{
		v1alpha1.AnnotationInventory: `{"gpus":[{"index":0,"uuid":"GPU-a","model":"A100","memoryMiB":40960}]}`,
	}}}
	var pods []corev1.Pod
	for i, share := range []string{`{"milli":500,"memoryMiB":20480}`, `{"milli":250}`} {
		pods = append(pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "vision", Name: []string{"one", "two"}[i], CreationTimestamp: metav1.NewTime(now.Add(time.Duration(-i) * time.Minute)),
				Annotations: map[string]string{v1alpha1.AnnotationGPUs: "GPU-a", v1alpha1.AnnotationGPUShare: share},
			},
			Spec: corev1.PodSpec{NodeName: "box"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	var text strings.Builder
	if err := Build([]corev1.Node{node}, pods, nil, nil).write(&text, terminal.Coloured(false), now); err != nil {
		t.Fatal(err)
	}
	want := `NODE  GPU  MODEL  BUSY  MEMORY    HELD BY                      SINCE
box   0    A100         40.0 GiB  vision/two (250m)            1m 0s
                                  vision/one (500m, 20.0 GiB)  under 1 s
`
	if _, got, _ := strings.Cut(text.String(), "\n\n"); got != want {
		t.Errorf("report (-want +got):\n%s", cmp.Diff(want, got))
	}
}
