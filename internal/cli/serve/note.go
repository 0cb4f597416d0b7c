package serve

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// note writes the resources that count GPUs into Muster's namespace, which is
// made where it is missing.
func note(ctx context.Context, api client.Client, resources string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}
	err := api.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if apierrors.IsNotFound(err) {
		if err = api.Create(ctx, namespace); apierrors.IsAlreadyExists(err) {
			err = nil // by another replica
		}
	}
	if err != nil {
		return fmt.Errorf("making namespace %s: %w", v1alpha1.SystemNamespace, err)
	}
	have := namespace.Annotations[v1alpha1.AnnotationGPUResources]
	if have == resources || have == "" && resources == v1alpha1.ResourceGPU {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationGPUResources: resources}}})
	if err == nil {
		err = api.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("noting in namespace %s which resources count GPUs: %w", v1alpha1.SystemNamespace, err)
	}
	return nil
}
