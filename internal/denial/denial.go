// Package denial reads what the API server's no to an object means: that it will
// be no tomorrow as well, or that a rule stands against it for as long as that rule
// does. It owns that difference and nothing else, and knows no kind.
package denial

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Never reports whether an object cannot be as it is written, whatever changes
// around it: a field is wrong.
func Never(err error) bool {
	return malformed(err) && !ruled(err)
}

// NotNow reports whether somebody's rule is against an object: a quota, a
// LimitRange, a policy, a webhook. Quotas grow and rules are corrected, so the same
// is worth trying again.
func NotNow(err error) bool {
	return apierrors.IsForbidden(err) || malformed(err) && ruled(err)
}

func malformed(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// ruled reports whether admission said no, and not validation. A policy's denial
// has the code that its author chose, 422 if none, and a webhook's may have any.
// Both are told by their words, since nothing else in them differs: admission
// writes `pods "a" is forbidden: ...` (NewForbidden in k8s.io/apiserver's
// pkg/admission), a webhook's denial begins with its name. Validation names fields.
func ruled(err error) bool {
	said := apierrors.APIStatus(nil)
	if !errors.As(err, &said) {
		return false
	}
	status := said.Status()
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Field != "" {
				return false
			}
		}
	}
	return strings.Contains(status.Message, " is forbidden: ") || strings.HasPrefix(status.Message, `admission webhook "`)
}
