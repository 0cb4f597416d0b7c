package conversion

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/scheduling"
)

// Node converts a Node, with its GPUs from the inventory annotation, the ResourceSlices
// or the device plugin's number. An inventory that it cannot parse makes the node not
// ready, with the error as the reason, because the GPUs are unknown.
func (g GPUResources) Node(n *corev1.Node, parts ...*resourcev1.ResourceSlice) scheduling.Node {
	out := scheduling.Node{
		Name:          n.Name,
		Labels:        n.Labels,
		Unschedulable: n.Spec.Unschedulable,
		NotReady:      NotReady(n),
		Allocatable:   g.amounts(n.Status.Allocatable),
		Domains:       domains(n.Labels),
	}
	for _, t := range n.Spec.Taints {
		if t.Key == v1alpha1.TaintOwned && t.Effect == corev1.TaintEffectNoSchedule {
			continue // it is for other schedulers
		}
		out.Taints = append(out.Taints, scheduling.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	text := n.Annotations[v1alpha1.AnnotationInventory]
	if text == "" {
		if !named(n, parts, &out) {
			g.count(n, &out)
		}
		return out
	}
	var inventory v1alpha1.NodeInventory
	if err := json.Unmarshal([]byte(text), &inventory); err != nil {
		out.NotReady = fmt.Sprintf("its annotation %s cannot be read: %v", v1alpha1.AnnotationInventory, err)
		return out
	}
	if p := inventory.HostPorts; p != nil && p.Last >= p.First {
		out.Ports = &scheduling.PortRange{First: p.First, Last: p.Last}
	}
	for _, listed := range inventory.GPUs {
		d := scheduling.Device{UUID: listed.UUID, Index: listed.Index, Model: listed.Model, MemoryMiB: listed.MemoryMiB, Unhealthy: listed.Unhealthy}
		for _, f := range listed.Foreign {
			d.Foreign = append(d.Foreign, scheduling.Process{PID: f.PID, User: f.User, Command: f.Command})
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

// StayingNode converts a Node as [GPUResources.Node] does. A node with a departure sign
// is not ready, whatever taints a pod tolerates.
func (g GPUResources) StayingNode(n *corev1.Node, signs departure.Signs, parts ...*resourcev1.ResourceSlice) scheduling.Node {
	out := g.Node(n, parts...)
	if d, leaves := signs.Of(n); leaves {
		out.NotReady = "it " + d.Why
	}
	return out
}

// NotReady returns the message of a Ready condition that is not true; else empty. A node
// without the condition counts as ready.
func NotReady(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			if c.Message != "" {
				return c.Message
			}
			return "its Ready condition is " + string(c.Status)
		}
	}
	return ""
}

// amounts converts a resource list, without GPUs.
func (g GPUResources) amounts(list corev1.ResourceList) scheduling.Resources {
	out := scheduling.Resources{}
	for name, q := range list {
		switch {
		case name == corev1.ResourceCPU:
			out.MilliCPU = q.MilliValue()
		case name == corev1.ResourceMemory:
			out.Memory = q.Value()
		case name == corev1.ResourcePods:
			out.Pods = q.Value()
		case g.has(name), name == v1alpha1.ResourceGPUMilli, name == v1alpha1.ResourceGPUMemory:
		default:
			if out.Other == nil {
				out.Other = map[string]int64{}
			}
			out.Other[string(name)] = q.Value()
		}
	}
	return out
}

// Requests returns a pod's resource requests and its number of GPUs: the larger of its
// containers' sum and each init container (with the sidecars before it), plus the
// overhead. The pod itself counts as one pod.
func (g GPUResources) Requests(spec *corev1.PodSpec) (scheduling.Resources, int32) {
	sum := total(spec, containerRequests)
	if spec.Resources != nil {
		for name, q := range spec.Resources.Requests {
			sum[name] = q
		}
	}
	add(sum, spec.Overhead)
	out := g.amounts(sum)
	out.Pods = 1
	return out, g.sum(sum)
}

// total sums the resources of a pod's containers.
func total(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range spec.Containers {
		add(sum, of(&spec.Containers[i]))
	}
	beside, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(beside, of(c))
			raise(most, beside)
			continue
		}
		now := beside.DeepCopy()
		add(now, of(c))
		raise(most, now)
	}
	add(sum, beside)
	raise(sum, most)
	return sum
}

// containerRequests returns a container's requests. A resource with only a limit has the
// limit as its request.
func containerRequests(c *corev1.Container) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range c.Resources.Limits {
		out[name] = q
	}
	for name, q := range c.Resources.Requests {
		out[name] = q
	}
	return out
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		have, ok := sum[name]
		if !ok {
			have = resource.Quantity{}
		}
		have.Add(q)
		sum[name] = have
	}
}

func raise(least, to corev1.ResourceList) {
	for name, q := range to {
		if have, ok := least[name]; !ok || have.Cmp(q) < 0 {
			least[name] = q
		}
	}
}

// Role converts a pod spec into a role.
func (g GPUResources) Role(name string, replicas int32, spec *corev1.PodSpec, models []string) scheduling.Role {
	res, gpus := g.Requests(spec)
	share, _ := g.PodShare(spec)
	out := scheduling.Role{
		Name: name, Replicas: replicas, GPUs: gpus, Share: share, Models: models, Resources: res,
		NodeLabels: spec.NodeSelector, FixedPorts: hostPorts(spec), Counted: g.counted(spec),
	}
	for _, t := range spec.Tolerations {
		out.Tolerations = append(out.Tolerations, scheduling.Toleration{
			Key: t.Key, Value: t.Value, Effect: string(t.Effect), Exists: t.Operator == corev1.TolerationOpExists,
		})
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			out.NodeTerms = append(out.NodeTerms, append(Expressions(term.MatchExpressions, false), Expressions(term.MatchFields, true)...))
		}
	}
	out.Prefers = preferences(spec)
	return out
}

// Expressions converts the conditions of a node selector term on labels, or on fields.
func Expressions(list []corev1.NodeSelectorRequirement, field bool) []scheduling.Expression {
	var out []scheduling.Expression
	for _, e := range list {
		out = append(out, scheduling.Expression{Key: e.Key, Operator: string(e.Operator), Values: e.Values, Field: field})
	}
	return out
}

// hostPorts returns the host ports of a pod.
func hostPorts(spec *corev1.PodSpec) []int32 {
	var out []int32
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.HostPort != 0 && !slices.Contains(out, p.HostPort) {
					out = append(out, p.HostPort)
				}
			}
		}
	}
	return out
}

// containerPorts returns all ports that a pod declares. They are ports of the node if
// the pod shares the node's network.
func containerPorts(spec *corev1.PodSpec) []int32 {
	out := hostPorts(spec)
	for i := range spec.Containers {
		for _, p := range spec.Containers[i].Ports {
			if !slices.Contains(out, p.ContainerPort) {
				out = append(out, p.ContainerPort)
			}
		}
	}
	return out
}

// Words splits a comma-separated annotation.
func Words(text string) []string {
	var out []string
	for _, w := range strings.Split(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// Ended reports whether a pod has succeeded or failed.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// counted returns the properties of a pod, beside its requests, that quotas count.
func (g GPUResources) counted(spec *corev1.PodSpec) scheduling.Counted {
	limits := total(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	asked := total(spec, containerRequests)
	out := scheduling.Counted{
		Limits: g.amounts(limits), Terminating: spec.ActiveDeadlineSeconds != nil, PriorityClass: spec.PriorityClassName,
	}
	out.BestEffort = true
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := asked[name]; !q.IsZero() {
			out.BestEffort = false
		}
	}
	return out
}

// PodRole converts a pod into a role of one member, for quotas.
func (g GPUResources) PodRole(p *corev1.Pod) scheduling.Role { return g.Role("pod", 1, &p.Spec, nil) }
