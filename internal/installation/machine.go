package installation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OnOneMachine reports whether a server belongs to an embedded Muster (`muster up`) and
// not to a cluster: an annotation of its kinds marks it. It reports false if the caller
// may not read CustomResourceDefinitions.
func OnOneMachine(ctx context.Context, server client.Reader) (bool, error) {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: kindCRD})
	err := server.Get(ctx, client.ObjectKey{Name: "queues.muster.dev"}, kind)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("finding out whether Muster is on a cluster or on one machine: %w", err)
	}
	_, up := kind.GetAnnotations()[annotationEmbedded]
	return up, nil
}
