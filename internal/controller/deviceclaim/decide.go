package deviceclaim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
)

// claimName is the name of the claim by which a pod gets its GPUs; empty if it has
// none. A member names it, and it is made here; that of a lone pod is made, and
// named in its status, before it is bound.
func claimName(p *corev1.Pod) (name string, member bool) {
	if p.Spec.NodeName == "" || p.Spec.SchedulerName != v1alpha1.SchedulerName {
		return "", false
	}
	if e := p.Status.ExtendedResourceClaimStatus; e != nil {
		return e.ResourceClaimName, false
	}
	if p.Labels[v1alpha1.LabelGang] == "" {
		return "", false
	}
	for i := range p.Spec.ResourceClaims {
		if r := &p.Spec.ResourceClaims[i]; r.Name == v1alpha1.GPUClaim && r.ResourceClaimName != nil {
			return *r.ResourceClaimName, true
		}
	}
	return "", false
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// wish is what a pod was given: GPUs as plans call them, and how much of the
// one; nil: all of each.
type wish struct {
	ids   []string
	share *v1alpha1.GPUShare
}

func wishOf(p *corev1.Pod) (wish, error) {
	if p.Annotations[v1alpha1.AnnotationGPUs] == "" {
		return wish{}, fmt.Errorf("reading what pod %s/%s was given: it names a claim, and has no annotation %s", p.Namespace, p.Name, v1alpha1.AnnotationGPUs)
	}
	w := wish{ids: strings.Split(p.Annotations[v1alpha1.AnnotationGPUs], ",")}
	text := p.Annotations[v1alpha1.AnnotationGPUShare]
	if text == "" {
		return w, nil
	}
	w.share = &v1alpha1.GPUShare{}
	if err := json.Unmarshal([]byte(text), w.share); err != nil {
		return w, fmt.Errorf("reading the annotation %s of pod %s/%s: %w", v1alpha1.AnnotationGPUShare, p.Namespace, p.Name, err)
	}
	return w, nil
}

// among finds what was given in the slices of the node, in that order; nil while
// they do not have all of it.
func (w wish) among(parts []resourcev1.ResourceSlice) []inventory.GPU {
	pointers := make([]*resourcev1.ResourceSlice, len(parts))
	for i := range parts {
		pointers[i] = &parts[i]
	}
	all := inventory.Of(pointers)
	var out []inventory.GPU
	for _, id := range w.ids {
		at := slices.IndexFunc(all, func(g inventory.GPU) bool { return g.ID() == id })
		if at < 0 {
			return nil
		}
		out = append(out, all[at])
	}
	return out
}

// verdict is the condition by which the driver says whether the pod's share is
// enforced; false if the pod has it already, or there is none.
func verdict(p *corev1.Pod, claim *resourcev1.ResourceClaim) (corev1.PodCondition, bool) {
	for i := range claim.Status.Devices {
		for _, c := range claim.Status.Devices[i].Conditions {
			if c.Type != v1alpha1.ConditionGPUShare {
				continue
			}
			out := corev1.PodCondition{Type: corev1.PodConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
			same := slices.ContainsFunc(p.Status.Conditions, func(has corev1.PodCondition) bool {
				return has.Type == out.Type && has.Status == out.Status && has.Message == out.Message
			})
			return out, !same
		}
	}
	return corev1.PodCondition{}, false
}

// put sets a condition of a pod.
func put(p *corev1.Pod, c corev1.PodCondition) {
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(has corev1.PodCondition) bool { return has.Type == c.Type })
	p.Status.Conditions = append(p.Status.Conditions, c)
}
