package admission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// wholeMilli is one GPU in thousandths, and mib the unit of its memory.
const (
	wholeMilli = 1000
	mib        = 1 << 20
)

// Share is a part of one GPU: thousandths of it, and MiB of its memory, which
// are 0 where the GPU does not tell how much it has. The zero value is no part.
type Share struct {
	Milli int64 `json:"milli"`
	MiB   int64 `json:"miB,omitempty"`
}

// String is the share for people: "250m (20480 MiB)".
func (s Share) String() string {
	if s.MiB == 0 {
		return fmt.Sprintf("%dm", s.Milli)
	}
	return fmt.Sprintf("%dm (%d MiB)", s.Milli, s.MiB)
}

// Use is what pods have of one GPU.
type Use struct {
	// Holders name the pods.
	Holders []string
	// Share is what they have together; a whole GPU is 1,000 thousandths.
	Share Share
}

// Add counts a holder and what it has, which is all where it is no share.
func (u *Use) Add(holder string, s Share) {
	if s == (Share{}) {
		s.Milli = wholeMilli
	}
	u.Holders = append(u.Holders, holder)
	u.Share.Milli += s.Milli
	u.Share.MiB += s.MiB
}

// ShareOf is the part that the scheduler gave a pod of its GPU; the zero value
// where the pod's GPUs are wholly its own, or what is written cannot be read.
func ShareOf(pod *corev1.Pod) Share {
	s, _ := readShare(pod)
	return s
}

func readShare(pod *corev1.Pod) (Share, error) {
	text := pod.Annotations[v1alpha1.AnnotationGPUShare]
	if text == "" {
		return Share{}, nil
	}
	var s v1alpha1.GPUShare
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Share{}, err
	}
	if s.Milli < 1 || s.Milli > wholeMilli || s.MemoryMiB < 0 {
		return Share{}, fmt.Errorf("%d thousandths and %d MiB are no part of a GPU", s.Milli, s.MemoryMiB)
	}
	return Share{Milli: int64(s.Milli), MiB: s.MemoryMiB}, nil
}

// asksForShare reports that a container's limits name a part of a GPU.
func asksForShare(ctr *corev1.Container) bool { return asked(ctr) != (Share{}) }

// asked is the part of a GPU that a container's limits name.
func asked(ctr *corev1.Container) Share {
	milli, memory := ctr.Resources.Limits[v1alpha1.ResourceGPUMilli], ctr.Resources.Limits[v1alpha1.ResourceGPUMemory]
	return Share{Milli: milli.Value(), MiB: (memory.Value() + mib - 1) / mib}
}

// share checks that at most one container asks for a part of a GPU, for one
// that there can be, and that the scheduler gave the pod as much.
func (c *check) share() {
	const field = "metadata.annotations[" + v1alpha1.AnnotationGPUShare + "]"
	given, err := readShare(c.pod)
	if err != nil {
		c.refuse(field, "cannot be read: %v. The scheduler writes the annotation: leave it out", err)
		return
	}
	askers, wants := 0, Share{}
	c.allContainers(func(at string, ctr *corev1.Container, _ bool) {
		if !asksForShare(ctr) {
			return
		}
		at += "resources.limits."
		askers, wants = askers+1, asked(ctr)
		switch {
		case wants.Milli < 0 || wants.Milli >= wholeMilli:
			c.refuse(at+v1alpha1.ResourceGPUMilli, "%d: a share is from 1 to 999 thousandths of one GPU, and a whole one is %s: 1", wants.Milli, v1alpha1.ResourceGPU)
		case wants.MiB < 0:
			c.refuse(at+v1alpha1.ResourceGPUMemory, "is below 0; give so many bytes of one GPU's memory, such as 8Gi")
		case askers > 1:
			c.refuse(at+v1alpha1.ResourceGPUMilli, "a second container of the pod asks for a part of a GPU; one may")
		case wantedGPUs(c.pod) > 0:
			c.refuse(at+v1alpha1.ResourceGPUMilli, "the pod asks for whole GPUs by %s as well; give one or the other", v1alpha1.ResourceGPU)
		}
	})
	switch {
	case askers == 0 && given != (Share{}):
		c.refuse(field, "gives the pod %s of a GPU, and none of its containers asks for a part of one by %s or %s", given, v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory)
	case askers > 0 && (given.Milli < max(1, wants.Milli) || given.MiB < wants.MiB):
		c.refuse(field, "gives the pod %s of a GPU, and it asks for %dm and %d MiB. The scheduler writes the annotation: "+
			"leave nodeName empty and set schedulerName: %s", given, wants.Milli, wants.MiB, v1alpha1.SchedulerName)
	}
}

// freeGPU checks that as much of a GPU is free as the pod was given.
func (c *check) freeGPU(field, uuid string, gpu GPU) {
	s := ShareOf(c.pod)
	holders := strings.Join(slices.Sorted(slices.Values(gpu.Use.Holders)), " and ")
	switch {
	case len(gpu.Use.Holders) == 0:
		if s.MiB > gpu.MemoryMiB {
			c.refuseHere(field, "GPU %s has %d MiB of memory, and the pod was given %s", uuid, gpu.MemoryMiB, s)
		}
	case s == (Share{}):
		c.refuseHere(field, "GPU %s is held by %s", uuid, holders)
	case gpu.Use.Share.Milli+s.Milli > wholeMilli, gpu.Use.Share.MiB+s.MiB > gpu.MemoryMiB:
		c.refuseHere(field, "GPU %s has %s left, and the pod was given %s; it is held by %s", uuid,
			Share{Milli: max(0, wholeMilli-gpu.Use.Share.Milli), MiB: max(0, gpu.MemoryMiB-gpu.Use.Share.MiB)}, s, holders)
	}
}
