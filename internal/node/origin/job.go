package origin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
)

// TrainingJobs is the resource of TrainingJobs.
var TrainingJobs = v1alpha1.GroupVersion.WithResource("trainingjobs")

// Job returns the UID of the TrainingJob of the pod's namespace that owns the pod; empty:
// none does. Cached returns the UID of a TrainingJob from a watch, which may lag behind:
// Job reads the API server where the cache has no such job, or where a volume of the pod
// names another.
func (o *Reader) Job(ctx context.Context, pod *corev1.Pod, cached func(types.NamespacedName) types.UID) (types.UID, error) {
	name := ownerOf(pod)
	if name == "" {
		return "", nil
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	if uid := cached(key); uid != "" && admission.OthersJob(pod, uid) == nil {
		return uid, nil
	}
	job, err := o.metadata.Resource(TrainingJobs).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the TrainingJob %s that owns the pod: %w", key, err)
	}
	return job.UID, nil
}

// ownerOf is the name of the TrainingJob that a pod's controller names; empty: none. The
// gang of a TrainingJob has its name.
func ownerOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || pod.Labels[v1alpha1.LabelJob] != owner.Name {
		return ""
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || version.Group != v1alpha1.GroupVersion.Group || owner.Kind != "Gang" {
		return ""
	}
	return owner.Name
}
