package pachyderm

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// nvidia is the one type of GPUs that a stage asks for.
const nvidia = "nvidia.com/gpu"

// resources sets what each worker is given.
func (c *conversion) resources(m *message, stage *v1alpha1.Stage) {
	requests, asked := c.amounts(m, "resource_requests")
	limits, limited := c.amounts(m, "resource_limits")
	// Kubernetes requests what it is to limit to where nothing else is said.
	for name, limit := range limits {
		switch request, ok := requests[name]; {
		case !ok:
			if requests == nil {
				requests = corev1.ResourceList{}
			}
			requests[name] = limit
		case request.Cmp(limit) > 0:
			c.refuse(m.field("resource_requests"), "asks for more %s, %s, than the limit, %s", name, request.String(), limit.String())
		}
	}
	if len(requests) > 0 || len(limits) > 0 {
		stage.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	if asked != 0 && limited != 0 && asked != limited {
		c.refuse(m.field("resource_requests"), "asks for %d GPUs and resource_limits for %d: give one number", asked, limited)
	}
	if gpus := max(asked, limited); gpus > 0 {
		stage.GPUs = resource.NewQuantity(gpus, resource.DecimalSI)
	}
}

// amounts reads requests or limits, and how many GPUs they name.
func (c *conversion) amounts(m *message, name string) (out corev1.ResourceList, gpus int64) {
	r := m.message(name, resourcesShape)
	if r == nil {
		return nil, 0
	}
	set := func(name corev1.ResourceName, q resource.Quantity) {
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[name] = q
	}
	if cpu := r.decimal("cpu", 1e6); cpu > 0 {
		set(corev1.ResourceCPU, *resource.NewMilliQuantity(int64(math.Ceil(cpu*1000-1e-6)), resource.DecimalSI))
	}
	if memory, ok := c.amount(r, "memory"); ok {
		set(corev1.ResourceMemory, memory)
	}
	if disk, ok := c.amount(r, "disk"); ok {
		set(corev1.ResourceEphemeralStorage, disk)
	}
	if g := r.message("gpu", gpuShape); g != nil {
		gpus = g.whole("number", 1, 1024)
		if kind := g.text("type"); kind != "" && kind != nvidia {
			c.refuse(g.field("type"), "give %s, not %s; which models will do a Pipeline says with `gpuModels`", nvidia, describe(kind))
		}
		if !g.has("number") {
			c.refuse(g.field("number"), "say how many GPUs each worker gets")
		}
	}
	return out, gpus
}

// amount is a number of bytes.
func (c *conversion) amount(r *message, name string) (resource.Quantity, bool) {
	text := r.text(name)
	if text == "" {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		c.refuse(r.field(name), "give an amount such as 512M or 4Gi, not %s", describe(text))
		return resource.Quantity{}, false
	}
	return q, true
}

// limits sets how many workers there are, and how long and how often they try.
func (c *conversion) limits(m *message, stage *v1alpha1.Stage) {
	scales := m.flag("autoscaling")
	if p := m.message("parallelism_spec", parallelismShape); p != nil {
		if n := int32(p.whole("constant", 1, 1000)); n > 0 {
			stage.Parallelism = &v1alpha1.Parallelism{Min: ptr.To(n), Max: n}
		}
	}
	if scales && stage.Parallelism != nil {
		stage.Parallelism.Min = ptr.To[int32](1)
	} else if scales {
		c.note(m.field("autoscaling"), "without parallelism_spec there is one worker; workers are there only while there is something to compute")
	}
	if m.has("datum_tries") {
		stage.Tries = ptr.To(int32(m.whole("datum_tries", 1, 100)))
	}
	if timeout := m.duration("datum_timeout"); timeout > 0 {
		stage.Timeout = &metav1.Duration{Duration: timeout}
	}
	switch how := m.text("reprocess_spec"); how {
	case "", "until_success":
	case "every_job":
		stage.Impure = true
	default:
		c.refuse(m.field("reprocess_spec"), "give until_success or every_job, not %s", describe(how))
	}
}
