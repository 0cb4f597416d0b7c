package expansion

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Field returns the value of a field of a pod, such as metadata.name,
// metadata.labels['app'], status.podIP, or all labels or annotations, one a
// line. It fails for fields that the downward API does not have.
func Field(pod *corev1.Pod, path string) (string, error) {
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		return joinIPs(pod.Status.HostIPs, func(ip corev1.HostIP) string { return ip.IP }), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		return joinIPs(pod.Status.PodIPs, func(ip corev1.PodIP) string { return ip.IP }), nil
	}
	return "", fmt.Errorf("the field %q cannot be referred to", path)
}

func joinIPs[T any](ips []T, address func(T) string) string {
	words := make([]string, 0, len(ips))
	for _, ip := range ips {
		words = append(words, address(ip))
	}
	return strings.Join(words, ",")
}

// subscript splits name['key'].
func subscript(path string) (name, key string, ok bool) {
	name, rest, found := strings.Cut(path, "['")
	if !found || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return name, strings.TrimSuffix(rest, "']"), true
}

func lines(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%s", key, strconv.Quote(m[key])))
	}
	return strings.Join(out, "\n")
}

// Resource returns a container's request or limit, divided by the selector's
// divisor and rounded up. A limit that is not set counts as the node's
// allocatable amount. Own is the container that asks; a selector may name
// another.
func Resource(pod *corev1.Pod, own *corev1.Container, selector *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	ctr := own
	if selector.ContainerName != "" {
		if ctr = container(pod, selector.ContainerName); ctr == nil {
			return "", fmt.Errorf("resource field: the pod has no container %q", selector.ContainerName)
		}
	}
	if ctr == nil {
		return "", fmt.Errorf("resource field %q: containerName is missing", selector.Resource)
	}
	kind, name, ok := strings.Cut(selector.Resource, ".")
	if !ok || (kind != "limits" && kind != "requests") {
		return "", fmt.Errorf("resource field %q: must be limits.<resource> or requests.<resource>", selector.Resource)
	}
	list := ctr.Resources.Requests
	if kind == "limits" {
		list = ctr.Resources.Limits
	}
	quantity, set := list[corev1.ResourceName(name)]
	if !set && kind == "limits" {
		quantity = allocatable[corev1.ResourceName(name)]
	}
	return divide(name, quantity, selector.Divisor), nil
}

// divide rounds up quantity / divisor; CPU is counted in thousandths.
func divide(name string, quantity, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, by := quantity.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		value, by = quantity.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt((value+by-1)/by, 10)
}

func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Lookup reads objects of the pod's namespace. It returns an error for which
// apierrors.IsNotFound holds when there is none.
type Lookup interface {
	ConfigMap(name string) (*corev1.ConfigMap, error)
	Secret(name string) (*corev1.Secret, error)
}

// Input is what a container's environment is made of.
type Input struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	// Root is the real folder of v1alpha1.PodRoot.
	Root string
	// Services are the variables that describe Services.
	Services []string
	// Allocatable is what a limit that is not set counts as.
	Allocatable corev1.ResourceList
	// Lookup reads ConfigMaps and Secrets.
	Lookup Lookup
}

// Environment builds the variables of a container: MUSTER_ROOT, those of
// Services, envFrom, env. MUSTER_ROOT is the node's to say, whatever value the
// pod carries for nodes that mount PodRoot. An error names the variable and
// says what is missing.
func Environment(in Input) (*Variables, error) {
	v := &Variables{}
	v.Set(v1alpha1.EnvRoot, in.Root)
	for _, pair := range in.Services {
		name, value, _ := strings.Cut(pair, "=")
		v.Set(name, value)
	}
	for i := range in.Container.EnvFrom {
		if err := from(v, &in.Container.EnvFrom[i], in.Lookup); err != nil {
			return nil, err
		}
	}
	v.Set(v1alpha1.EnvRoot, in.Root)
	for i := range in.Container.Env {
		e := &in.Container.Env[i]
		if e.Name == v1alpha1.EnvRoot {
			continue
		}
		if e.ValueFrom == nil {
			v.Set(e.Name, v.Expand(e.Value))
			continue
		}
		value, ok, err := valueFrom(in, e.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", e.Name, err)
		}
		if ok {
			v.Set(e.Name, value)
		}
	}
	return v, nil
}
