package survey_test

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
)

// The error names the right that the user lacks for the command.
func TestForChange(t *testing.T) {
	for name, tt := range map[string]struct {
		changes bool
		want    string
	}{
		"neither":                 {false, "you may not create queues; ask an administrator"},
		"queues, but not to look": {true, "nodes is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			server := interceptor.NewClient(sample.World(t), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
				},
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					review := o.(*authorizationv1.SelfSubjectAccessReview)
					review.Status.Allowed = tt.changes && review.Spec.ResourceAttributes.Verb == "create" && review.Spec.ResourceAttributes.Resource == "queues"
					return nil
				},
			})
			if _, err := survey.ForChange(t.Context(), server, "create"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if now, err := survey.ForChange(t.Context(), sample.Team(t), "create"); err != nil || now.Object("vision") == nil {
		t.Errorf("of an administrator: %v", err)
	}
}
