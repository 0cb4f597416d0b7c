package origin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/node/admission"
)

var placements = v1alpha1.GroupVersion.WithResource("placements")

// Stands returns a refusal for a member if its Placement was released before the pod
// was made: the controller's write came late. Stands reads the Placement without a cache
// after the pod has arrived. A controller that releases a Placement marks it first, and
// lists its pods afterwards, so one of the two sees the other.
func (o *Reader) Stands(ctx context.Context, pod *corev1.Pod) (*admission.Refusal, error) {
	name, from, ok := fencing.ParseOrigin(pod.Annotations[v1alpha1.AnnotationPlacement])
	if !ok {
		return nil, nil // no pod of a Placement
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	have, err := o.read(ctx, key, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return o.metadata.Resource(placements).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	})
	if apierrors.IsNotFound(err) {
		have, err = &metav1.PartialObjectMetadata{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pod's placement %s/%s: %w", pod.Namespace, name, err)
	}
	if fencing.MayRun(string(from), string(have.UID), have.DeletionTimestamp != nil) {
		return nil, nil
	}
	return &admission.Refusal{
		Field:   "metadata.annotations[" + v1alpha1.AnnotationPlacement + "]",
		Message: fmt.Sprintf("this pod's placement %s with UID %s has been given back; the gang's next attempt makes a new pod", name, from),
		Passing: true,
	}, nil
}
