package top

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/removal"
)

// Report is what `muster top -o json` prints.
type Report struct {
	Nodes []Node `json:"nodes"`
}

// Node is one node and what it gives.
type Node struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	// CPUs and CPUsRequested are in cores.
	CPUs          float64 `json:"cpus"`
	CPUsRequested float64 `json:"cpusRequested"`
	// Memory and MemoryRequested are in bytes.
	Memory          int64 `json:"memory"`
	MemoryRequested int64 `json:"memoryRequested"`
	// Pods is how many pods have not ended.
	Pods int   `json:"pods"`
	GPUs []GPU `json:"gpus,omitempty"`
	// Quarantined are processes that the node found and knows nothing of.
	Quarantined []string `json:"quarantined,omitempty"`
}

// GPU is one GPU and who holds it.
type GPU struct {
	v1alpha1.GPUDevice
	// Utilization is in percent; absent where this machine cannot measure it.
	Utilization *int `json:"utilization,omitempty"`
	// MemoryUsedMiB is absent where this machine cannot measure it.
	MemoryUsedMiB *int64 `json:"memoryUsedMiB,omitempty"`
	// Holder is the pod that holds it; absent if none does.
	Holder *Holder `json:"holder,omitempty"`
}

// Holder is the pod that holds a GPU.
type Holder struct {
	Namespace string `json:"namespace"`
	// Job and Member are empty for a pod that is no member of a job.
	Job    string    `json:"job,omitempty"`
	Member string    `json:"member,omitempty"`
	Pod    string    `json:"pod"`
	Since  time.Time `json:"since"`
}

// Measure is what was measured of one GPU.
type Measure struct {
	UtilizationPercent int
	MemoryUsedMiB      int64
}

// Build makes the report from nodes, pods and, by UUID, what was measured.
func Build(nodes []corev1.Node, pods []corev1.Pod, measures map[string]Measure) Report {
	holders := map[string]*Holder{}
	type sums struct {
		cpus   float64
		memory int64
		pods   int
	}
	used := map[string]*sums{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		sum := used[pod.Spec.NodeName]
		if sum == nil {
			sum = &sums{}
			used[pod.Spec.NodeName] = sum
		}
		sum.pods++
		for _, container := range pod.Spec.Containers {
			sum.cpus += container.Resources.Requests.Cpu().AsApproximateFloat64()
			sum.memory += container.Resources.Requests.Memory().Value()
		}
		for _, uuid := range removal.GPUs(pod) {
			holders[uuid] = holderOf(pod)
		}
	}
	report := Report{Nodes: []Node{}}
	for i := range nodes {
		node := &nodes[i]
		row := Node{
			Name: node.Name, Ready: ready(node),
			CPUs: node.Status.Allocatable.Cpu().AsApproximateFloat64(), Memory: node.Status.Allocatable.Memory().Value(),
		}
		if sum := used[node.Name]; sum != nil {
			row.CPUsRequested, row.MemoryRequested, row.Pods = sum.cpus, sum.memory, sum.pods
		}
		inventory := inventoryOf(node)
		row.Quarantined = inventory.Quarantined
		for _, device := range inventory.GPUs {
			gpu := GPU{GPUDevice: device, Holder: holders[device.UUID]}
			if measure, ok := measures[device.UUID]; ok {
				gpu.Utilization, gpu.MemoryUsedMiB = &measure.UtilizationPercent, &measure.MemoryUsedMiB
			}
			row.GPUs = append(row.GPUs, gpu)
		}
		slices.SortFunc(row.GPUs, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
		report.Nodes = append(report.Nodes, row)
	}
	slices.SortFunc(report.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return report
}

func holderOf(pod *corev1.Pod) *Holder {
	holder := &Holder{Namespace: pod.Namespace, Pod: pod.Name, Since: pod.CreationTimestamp.Time}
	if pod.Status.StartTime != nil {
		holder.Since = pod.Status.StartTime.Time
	}
	if m, ok := member.OfPod(pod); ok {
		holder.Job, holder.Member = pod.Labels[v1alpha1.LabelJob], m.String()
	}
	return holder
}

// inventoryOf reads what a node tells of its GPUs. One that tells nothing, or
// nonsense, has none.
func inventoryOf(node *corev1.Node) v1alpha1.NodeInventory {
	var inventory v1alpha1.NodeInventory
	if json.Unmarshal([]byte(node.Annotations[v1alpha1.AnnotationInventory]), &inventory) != nil {
		return v1alpha1.NodeInventory{}
	}
	return inventory
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
