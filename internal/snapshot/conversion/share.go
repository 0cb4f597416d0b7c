package conversion

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// The units of shares of GPUs.
const (
	wholeMilli = 1000
	mib        = 1 << 20
)

// mibOf returns an amount of memory in MiB, rounded up.
func mibOf(q resource.Quantity) int64 { return max(0, (q.Value()+mib-1)/mib) }

// Wants returns the GPUs that each member of a role needs: a number of whole GPUs, or a
// share of one. Invalid is the message for an invalid number, such as one and a half.
func Wants(r *v1alpha1.GangRole) (gpus int32, share scheduling.Share, invalid string) {
	if r.GPUMemory != nil {
		share.MiB = mibOf(*r.GPUMemory)
	}
	if r.GPUs != nil {
		switch milli := r.GPUs.MilliValue(); {
		case milli > 0 && milli < wholeMilli:
			share.Milli = milli
		case milli%wholeMilli != 0:
			return 0, share, fmt.Sprintf("gpus: %s is neither whole GPUs nor a share: a share is below one GPU, such as 250m, or ask for whole GPUs", r.GPUs)
		case share.MiB > 0 && milli > 0:
			return 0, share, fmt.Sprintf("gpus: %s with gpuMemory: gpuMemory is memory of one GPU; leave gpus out, or give a share below one GPU, such as 250m", r.GPUs)
		default:
			gpus = int32(min(milli/wholeMilli, 1<<20))
		}
	}
	return gpus, share, ""
}

// PodShare returns the share of a GPU that a pod's containers request. Invalid is the
// message for requests that Muster does not support.
func (g GPUResources) PodShare(spec *corev1.PodSpec) (share scheduling.Share, invalid string) {
	askers := 0
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			asked := containerRequests(&list[i])
			milli, hasMilli := asked[v1alpha1.ResourceGPUMilli]
			memory, hasMemory := asked[v1alpha1.ResourceGPUMemory]
			if hasMilli && milli.Sign() == 0 {
				hasMilli = false
			}
			if hasMemory && memory.Sign() == 0 {
				hasMemory = false
			}
			if !hasMilli && !hasMemory {
				continue
			}
			askers++
			whole := g.sum(asked)
			share = scheduling.Share{Milli: milli.Value(), MiB: mibOf(memory)}
			switch {
			case whole > 0:
				return share, fmt.Sprintf("container %s asks for whole GPUs (%s) and for a part of one (%s, %s); give one or the other",
					list[i].Name, v1alpha1.ResourceGPU, v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory)
			case share.Milli < 0 || share.Milli >= wholeMilli:
				return share, fmt.Sprintf("container %s asks for %s: %s; a share is from 1 to 999 thousandths of one GPU, and a whole one is %s: 1",
					list[i].Name, v1alpha1.ResourceGPUMilli, milli.String(), v1alpha1.ResourceGPU)
			case askers > 1:
				return share, fmt.Sprintf("several containers ask for a part of a GPU (%s, %s); one container of a pod may", v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory)
			}
		}
	}
	if askers > 0 && g.wholeGPUs(spec) {
		return share, fmt.Sprintf("the pod asks for whole GPUs (%s) and for a part of one (%s, %s); give one or the other",
			v1alpha1.ResourceGPU, v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory)
	}
	return share, ""
}

// wholeGPUs reports whether a container of the pod requests whole GPUs.
func (g GPUResources) wholeGPUs(spec *corev1.PodSpec) bool {
	_, gpus := g.Requests(spec)
	return gpus > 0
}

// PlacedShare converts the share of a placed member.
func PlacedShare(s *v1alpha1.GPUShare) scheduling.Share {
	if s == nil {
		return scheduling.Share{}
	}
	return scheduling.Share{Milli: int64(s.Milli), MiB: s.MemoryMiB}
}

// ShareOf returns the share that the scheduler wrote to a pod. An annotation that it
// cannot parse counts as the whole GPU, so that the scheduler does not assign a part twice.
func ShareOf(p *corev1.Pod) scheduling.Share {
	text := p.Annotations[v1alpha1.AnnotationGPUShare]
	if text == "" {
		return scheduling.Share{}
	}
	var s v1alpha1.GPUShare
	if json.Unmarshal([]byte(text), &s) != nil || s.Milli < 0 || s.MemoryMiB < 0 {
		return scheduling.Share{}
	}
	return PlacedShare(&s)
}

// JournalShare converts a share into the API's form; nil for no share.
func JournalShare(s scheduling.Share) *v1alpha1.GPUShare {
	if s == (scheduling.Share{}) {
		return nil
	}
	return &v1alpha1.GPUShare{Milli: int32(s.Milli), MemoryMiB: s.MiB}
}

// ShareText returns the pod annotation for a share.
func ShareText(s scheduling.Share) string {
	text, err := json.Marshal(JournalShare(s))
	if err != nil {
		return "" // two integers are always JSON
	}
	return string(text)
}

// setShare sets the resources of a container that requests a share of a GPU.
func setShare(list *corev1.ResourceList, s scheduling.Share) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	if s.Milli > 0 {
		(*list)[v1alpha1.ResourceGPUMilli] = *resource.NewQuantity(s.Milli, resource.DecimalSI)
	}
	if s.MiB > 0 {
		(*list)[v1alpha1.ResourceGPUMemory] = *resource.NewQuantity(s.MiB*mib, resource.BinarySI)
	}
}
