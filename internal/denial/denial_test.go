package denial

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestDenial(t *testing.T) {
	pods, pod := corev1.Resource("pods"), corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
	// As the API server makes of a policy without a reason of its own.
	policy := apierrors.NewForbidden(pods, "a-worker-57", errors.New("ValidatingAdmissionPolicy 'odd' with binding 'odd' denied request: no odd ones"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, 422
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no odd ones"}}
	webhook := apierrors.NewBadRequest(`admission webhook "images.example.com" denied the request: not signed`)
	for name, tt := range map[string]struct {
		err           error
		never, notNow bool
	}{
		"a field":                   {err: apierrors.NewInvalid(pod, "a", field.ErrorList{field.Forbidden(field.NewPath("spec", "hostPID"), "x is forbidden: y")}), never: true},
		"a word that is not known":  {err: apierrors.NewBadRequest("strict decoding error: unknown field"), never: true},
		"a quota":                   {err: apierrors.NewForbidden(pods, "a", errors.New("exceeded quota: few")), notNow: true},
		"a policy":                  {err: policy, notNow: true},
		"a policy, wrapped":         {err: fmt.Errorf("creating pod a: %w", policy), notNow: true},
		"a webhook that says 400":   {err: webhook, notNow: true},
		"a conflict":                {err: apierrors.NewConflict(pods, "a", errors.New("changed"))},
		"a server that is too busy": {err: apierrors.NewTooManyRequests("later", 1)},
		"no word of the server's":   {err: errors.New("connection refused")},
		"nothing":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Never(tt.err); got != tt.never {
				t.Errorf("never is %t", got)
			}
			if got := NotNow(tt.err); got != tt.notNow {
				t.Errorf("not now is %t", got)
			}
		})
	}
}
