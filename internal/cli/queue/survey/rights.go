package survey

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// ForChange is Read for a command that then does verb to queues: create, update or delete. If
// the user may neither read all that a survey needs nor do that, the error names the verb: it is
// the right that the user asked about.
func ForChange(ctx context.Context, server client.Client, verb string) (*Survey, error) {
	now, err := Read(ctx, server)
	if !apierrors.IsForbidden(err) {
		return now, err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: v1alpha1.GroupVersion.Group, Resource: "queues", Verb: verb},
	}}
	if server.Create(ctx, review) != nil || review.Status.Allowed {
		return nil, err
	}
	return nil, fmt.Errorf("you may not %s queues; ask an administrator of the cluster to do this, or to give you the role muster-admin", verb)
}
