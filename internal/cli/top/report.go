package top

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/cli/device"
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
	// GoneGPUs are held by pods and no longer in the node.
	GoneGPUs []device.Gone `json:"goneGPUs,omitempty"`
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
	// Holder is the pod that holds it; absent if none does, or parts of it are
	// held.
	Holder *device.Holder `json:"holder,omitempty"`
	// Sharers are the pods that hold parts of it, the longest holding first.
	Sharers []device.Holder `json:"sharers,omitempty"`
}

// Measure is what was measured of one GPU.
type Measure struct {
	UtilizationPercent int
	MemoryUsedMiB      int64
}

// Build makes the report from nodes, pods, the GPUs that claims of others hold, and measurements by
// UUID.
func Build(nodes []corev1.Node, pods []corev1.Pod, others []allocation.Holding, measures map[string]Measure) Report {
	// By GPU: those that are only counted have the same names on every node.
	type place struct{ node, uuid string }
	holders := map[place]*device.Holder{}
	sharers := map[place][]device.Holder{}
	type sums struct {
		cpus   float64
		memory int64
		pods   int
	}
	used := map[string]*sums{}
	for i := range pods {
		pod := &pods[i]
		if !device.Holds(pod) {
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
		holder := device.HolderOf(pod)
		for _, uuid := range device.Of(pod) {
			if holder.Share != nil {
				sharers[place{pod.Spec.NodeName, uuid}] = append(sharers[place{pod.Spec.NodeName, uuid}], holder)
			} else {
				holders[place{pod.Spec.NodeName, uuid}] = &holder
			}
		}
	}
	for i := range others {
		holder, at := device.HolderBy(&others[i]), place{others[i].Node, others[i].GPU}
		if holders[at] == nil && holder.Share == nil {
			holders[at] = &holder
		} else {
			sharers[at] = append(sharers[at], holder)
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
		inventory, _ := device.Inventory(node)
		row.Quarantined, row.GoneGPUs = inventory.Quarantined, device.GoneFrom(node, pods)
		for _, one := range inventory.GPUs {
			at := place{node.Name, one.UUID}
			gpu := GPU{GPUDevice: one, Holder: holders[at], Sharers: sharers[at]}
			slices.SortFunc(gpu.Sharers, func(a, b device.Holder) int {
				return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.String(), b.String()))
			})
			if measure, ok := measures[one.UUID]; ok {
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

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
