package conversion

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

func TestNodesThatCount(t *testing.T) {
	owned := map[string]string{v1alpha1.LabelOwned: "true", v1alpha1.LabelGPUModel: "NVIDIA-A100-SXM4-80GB", v1alpha1.LabelGPUMemory: "81920"}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{owned, more} {
			for k, v := range m {
				if v != "" {
					out[k] = v
				} else {
					delete(out, k)
				}
			}
		}
		return out
	}
	devices := func(n int, model string, memory int64) []scheduling.Device {
		var out []scheduling.Device
		for i := range n {
			out = append(out, scheduling.Device{UUID: fmt.Sprint("counted-", i), Index: i, Model: model, MemoryMiB: memory})
		}
		return out
	}
	for name, tt := range map[string]struct {
		labels    map[string]string
		amounts   map[corev1.ResourceName]int64
		resources GPUResources
		want      scheduling.Node
	}{
		"owned": {labels: owned, amounts: map[corev1.ResourceName]int64{"nvidia.com/gpu": 2}, want: scheduling.Node{Counts: true, Devices: devices(2, "A100", 81920)}},
		"not owned": {labels: with(map[string]string{v1alpha1.LabelOwned: ""}), amounts: map[corev1.ResourceName]int64{"nvidia.com/gpu": 8},
			want: scheduling.Node{Unowned: []scheduling.ModelCount{{Model: "A100", Count: 8}}}},
		"no label tells": {labels: map[string]string{v1alpha1.LabelOwned: "true"}, amounts: map[corev1.ResourceName]int64{"nvidia.com/gpu": 1},
			want: scheduling.Node{Counts: true, Devices: devices(1, "GPU", 0)}},
		"people say otherwise": {labels: with(map[string]string{v1alpha1.LabelModel: "H20", v1alpha1.LabelMemory: "98304"}), amounts: map[corev1.ResourceName]int64{"nvidia.com/gpu": 1},
			want: scheduling.Node{Counts: true, Devices: devices(1, "H20", 98304)}},
		"slices": {labels: with(map[string]string{v1alpha1.LabelGPUModel: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", v1alpha1.LabelGPUMemory: "4864"}), amounts: map[corev1.ResourceName]int64{"nvidia.com/gpu": 1},
			want: scheduling.Node{Counts: true, Devices: devices(1, "A100-MIG-1G.5GB", 4864)}},
		"memory that is no number": {labels: with(map[string]string{v1alpha1.LabelGPUMemory: "80GB"}), amounts: map[corev1.ResourceName]int64{"nvidia.com/gpu": 1},
			want: scheduling.Node{Counts: true, Devices: devices(1, "A100", 0)}},
		"another resource": {labels: owned, resources: GPUResources{"nvidia.com/gpu", "amd.com/gpu"}, amounts: map[corev1.ResourceName]int64{"amd.com/gpu": 1},
			want: scheduling.Node{Counts: true, Devices: devices(1, "A100", 81920)}},
		"a resource that nobody named": {labels: owned, amounts: map[corev1.ResourceName]int64{"amd.com/gpu": 1},
			want: scheduling.Node{Counts: true, Allocatable: scheduling.Resources{Other: map[string]int64{"amd.com/gpu": 1}}}},
		"no GPU": {labels: map[string]string{v1alpha1.LabelOwned: "true"}, want: scheduling.Node{Counts: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tt.labels}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}}}
			n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOwned, Effect: corev1.TaintEffectNoSchedule}}
			for r, q := range tt.amounts {
				n.Status.Allocatable[r] = *resource.NewQuantity(q, resource.DecimalSI)
			}
			tt.want.Name, tt.want.Labels = "n", tt.labels
			if diff := cmp.Diff(tt.want, tt.resources.Node(n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod that Muster did not place holds as many GPUs as it asks for, without
// names; one that was given some by name holds those.
func TestPodsOnNodesThatCount(t *testing.T) {
	for name, tt := range map[string]struct {
		named string
		asks  string
		loose int32
		gpus  []string
	}{
		"another's":              {asks: "2", loose: 2},
		"placed here":            {named: "counted-0,counted-1", asks: "2", gpus: []string{"counted-0", "counted-1"}},
		"asks for more than has": {named: "counted-0", asks: "2", loose: 1, gpus: []string{"counted-0"}},
		"none":                   {asks: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse(tt.asks)},
			}}}}}
			if tt.named != "" {
				p.Annotations = map[string]string{v1alpha1.AnnotationGPUs: tt.named}
			}
			got := GPUResources(nil).Pod(p, false)
			if got.Loose != tt.loose || !cmp.Equal(got.GPUs, tt.gpus) {
				t.Errorf("%d without a name, and %v; want %d and %v", got.Loose, got.GPUs, tt.loose, tt.gpus)
			}
		})
	}
}

// Commands that only read use the departure signs of the scheduler.
func TestSignsAreNoted(t *testing.T) {
	leaves := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "acme.com/leaves", Effect: corev1.TaintEffectNoSchedule}}}}
	disrupted := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}}}
	for name, c := range map[string]struct {
		noted                 string
		leaves, known, within bool
	}{
		"nothing is noted":              {noted: "", known: true},
		"one of their own":              {noted: "acme.com/leaves=1m0s", leaves: true, within: true},
		"both":                          {noted: "karpenter.sh/disrupted, acme.com/leaves", leaves: true, known: true},
		"what another version can read": {noted: "event:Leaves,acme.com/leaves", leaves: true},
		"only what is not understood":   {noted: "event:Leaves", known: true},
	} {
		system := corev1.Namespace{}
		system.Name, system.Annotations = v1alpha1.SystemNamespace, map[string]string{v1alpha1.AnnotationDepartureSigns: c.noted}
		signs := Signs([]corev1.Namespace{{}, system})
		d, got := signs.Of(leaves)
		if got != c.leaves || (d.Within > 0) != c.within {
			t.Errorf("%s: their node leaves: %v, %+v", name, got, d)
		}
		if _, got := signs.Of(disrupted); got != c.known {
			t.Errorf("%s: Karpenter's node leaves: %v", name, got)
		}
	}
}
