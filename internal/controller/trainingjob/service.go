package trainingjob

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// serviceFor is the headless Service that gives members their names. Members
// look for one another while they start, so they are published before they are
// ready.
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
