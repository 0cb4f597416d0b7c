package conversion

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// GangRole converts a role with its pod spec after a dry run. The role's own GPU fields
// override the pod's requests.
func (gr GPUResources) GangRole(r *v1alpha1.GangRole, spec *corev1.PodSpec) scheduling.Role {
	out := gr.Role(r.Name, r.Replicas, spec, r.GPUModels)
	if r.MinReplicas != nil {
		out.Min = *r.MinReplicas
	}
	if r.GPUs != nil || r.GPUMemory != nil {
		out.GPUs, out.Share, _ = Wants(r)
	}
	if r.Spread != nil {
		out.Spread = scheduling.Spread{Over: scheduling.Level(r.Spread.Over), Required: r.Spread.Required}
	}
	return out
}

// Sample returns a pod of a role before its placement.
func (gr GPUResources) Sample(g *v1alpha1.Gang, r *v1alpha1.GangRole) *corev1.Pod {
	t := r.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.Namespace, GenerateName: g.Name + "-" + r.Name + "-", Labels: t.Labels, Annotations: t.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, v1alpha1.GroupVersion.WithKind("Gang"))},
	}, Spec: t.Spec}
	p.Spec.NodeName = ""
	p.Spec.SchedulerName = v1alpha1.SchedulerName
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	if len(p.Spec.Containers) == 0 {
		return p
	}
	n, share, _ := Wants(r)
	c := &p.Spec.Containers[0]
	for _, list := range []*corev1.ResourceList{&c.Resources.Requests, &c.Resources.Limits} {
		switch {
		case n > 0:
			setGPUs(list, gr.first(), int64(n))
		case share != scheduling.Share{}:
			setShare(list, share)
		}
	}
	return p
}

func setGPUs(list *corev1.ResourceList, name corev1.ResourceName, n int64) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = *resource.NewQuantity(n, resource.DecimalSI)
}

// GPUs returns the number of GPUs of each member of a role. A share of a GPU counts as
// one.
func GPUs(r *v1alpha1.GangRole) int64 {
	n, share, _ := Wants(r)
	if share != (scheduling.Share{}) {
		return 1
	}
	return int64(n)
}
