package snapshot

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestRefusedPlansBackOff has the API server refuse the Placement of one gang, as a quota
// or a policy does: each refusal doubles the delay, and the write that holds ends it.
func TestRefusedPlansBackOff(t *testing.T) {
	const refusals = 4
	var asked atomic.Int32
	api := testAPI(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*v1alpha1.Placement); is && asked.Add(1) <= refusals {
				return apierrors.NewForbidden(corev1.Resource("placements"), o.GetName(), errors.New("exceeded quota: none"))
			}
			return c.Create(ctx, o, opts...)
		},
	}, testNode(2), testGang("lab", 1, "1"))
	loop := run(t, api)
	uid := types.UID("")
	seen := 0
	eventually(t, "the gang is placed", func() bool {
		g := &v1alpha1.Gang{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "lab"}, g); err == nil {
			uid = g.UID
		}
		seen = max(seen, loop.retries.NumRequeues(uid))
		return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "lab-1"}, &v1alpha1.Placement{}) == nil
	})
	if seen == 0 || seen > refusals {
		t.Errorf("%d refusals were counted, want up to %d", seen, refusals)
	}
	eventually(t, "the delay is as before", func() bool { return loop.retries.NumRequeues(uid) == 0 })
	if delay := loop.retries.When(uid); delay != again {
		t.Errorf("the next delay is %s, want %s", delay, again)
	}
}
