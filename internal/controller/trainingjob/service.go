package trainingjob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// named reports whether anybody has to find the job's members by their names: a
// job of a single member that meets nobody and names no port has no Service.
func named(job *v1alpha1.TrainingJob) bool {
	if !alone(job) || framework(job) != v1alpha1.FrameworkNone {
		return true
	}
	role := &job.Spec.Roles[0]
	if role.PortName != "" || len(role.IndexLabels)+len(role.FirstLabels) > 0 {
		return true
	}
	return role.Template != nil && slices.ContainsFunc(role.Template.Spec.Containers, func(c corev1.Container) bool { return len(c.Ports) > 0 })
}

// serviceFor is the headless Service that gives members their names. Members
// look for one another while they start, so they are published before they are
// ready.
//
// It is made with the gang, and not once the gang is placed. Its name may be taken, and a quota on
// services may refuse it: the controller finds that out before the gang holds a GPU. If a member
// looks up a name before the Service is known, DNS servers remember for seconds that there is none.
// A headless Service costs an object and no address.
func serviceFor(job *v1alpha1.TrainingJob) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: owned(job, job.Name),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{v1alpha1.LabelGang: job.Name},
		},
	}
}

// serviceMeta is what of a Service is read: that it is there, and whose it is.
func serviceMeta() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return m
}
