package dataset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Ensure makes a dataset that is not there, for a pipeline or, where that is empty,
// for all. It is not deleted with the pipeline: data is nobody's but who deletes it.
func Ensure(ctx context.Context, server client.Client, namespace, owner, name string) error {
	d := &v1alpha1.Dataset{}
	err := server.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, d)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	d.Namespace, d.Name, d.Spec.Description = namespace, name, "results of pipelines"
	if owner != "" {
		d.Labels, d.Spec.Description = map[string]string{v1alpha1.LabelPipeline: owner}, "made by pipeline "+owner
	}
	if err := server.Create(ctx, d); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating dataset %s: %w", name, err)
	}
	return nil
}
