package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
)

// noted is what commands that look at the cluster have to know of what this
// program was told, by annotation of Muster's namespace; "" where it is what
// they take for granted.
func (o *options) noted() map[string]string {
	out := map[string]string{
		v1alpha1.AnnotationGPUResources: strings.Join(o.gpus, ","), v1alpha1.AnnotationDepartureSigns: strings.Join(o.signs, ","),
		v1alpha1.AnnotationDataStore: o.data.place(&o.store),
	}
	for key, granted := range map[string]string{
		v1alpha1.AnnotationGPUResources:   v1alpha1.ResourceGPU,
		v1alpha1.AnnotationDepartureSigns: strings.Join(texts(departure.Known()), ","),
	} {
		if out[key] == granted {
			out[key] = ""
		}
	}
	return out
}

// note writes that into Muster's namespace, which is made where it is missing.
func note(ctx context.Context, api client.Client, noted map[string]string) error {
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
	changes := map[string]any{}
	for key, text := range noted {
		have, there := namespace.Annotations[key]
		switch {
		case text == "" && there:
			changes[key] = nil
		case have != text:
			changes[key] = text
		}
	}
	if len(changes) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": changes}})
	if err == nil {
		err = api.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("noting in namespace %s which resources count GPUs, which signs there are of nodes that go, and where data is kept: %w", v1alpha1.SystemNamespace, err)
	}
	return nil
}
