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

// Stands returns a refusal for a member whose Placement was given back
// before the pod was made: a write that came late. The Placement is read past
// any cache, after the pod was seen: whoever gives it back marks it, and looks
// for pods after that. Pods that were seen before a read began share it.
func (o *Reader) Stands(ctx context.Context, pod *corev1.Pod) (*admission.Refusal, error) {
	name, from, ok := fencing.ParseOrigin(pod.Annotations[v1alpha1.AnnotationPlacement])
	if !ok {
		return nil, nil // not made of a Placement
	}
	key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	have, err := o.read(ctx, key, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return o.metadata.Resource(placements).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	})
	if apierrors.IsNotFound(err) {
		have, err = &metav1.PartialObjectMetadata{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the placement %s/%s of the pod: %w", pod.Namespace, name, err)
	}
	if fencing.MayRun(string(from), string(have.UID), have.DeletionTimestamp != nil) {
		return nil, nil
	}
	return &admission.Refusal{
		Field:   "metadata.annotations[" + v1alpha1.AnnotationPlacement + "]",
		Message: fmt.Sprintf("this pod is of the placement %s with UID %s, which was given back; the gang's next attempt makes a new pod", name, from),
		Passing: true,
	}, nil
}
