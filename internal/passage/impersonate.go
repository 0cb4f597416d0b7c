package passage

import (
	"context"
	"errors"
	"net/http"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/people/session"
)

const accessPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// impersonator returns a transport by which the manager asks as a caller. The API server looks for the
// verbs impersonate:user-info, of the user and of each group, and impersonate-on:user-info:VERB, of what
// is asked for (KEP-5284).
func (c *Cluster) impersonator(who session.Caller) *door {
	d := c.own()
	d.change = func(h http.Header) {
		h.Set("Impersonate-User", who.User)
		for _, group := range c.passed(who.Groups) {
			h.Add("Impersonate-Group", group)
		}
	}
	return d
}

// passed returns those groups that the manager may impersonate.
func (c *Cluster) passed(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !slices.Contains(c.o.Groups, g) })
}

// constrained reports why the manager cannot act as a caller by constrained impersonation; empty if it
// can. An API server before 1.36 knows the verb impersonate alone, and refuses.
func (c *Cluster) constrained(ctx context.Context, who session.Caller) (not string, err error) {
	free, err := c.may(ctx, authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: who.User})
	if err != nil {
		return "", err
	}
	if free {
		return "the manager has the right to impersonate you without any constraint, which this console does not use: an administrator removes the verb impersonate from its roles", nil
	}
	got, err := c.impersonator(who).whoami(ctx)
	switch {
	case errors.Is(err, errForbidden), errors.Is(err, errUnknown):
		return "it does not let the manager act for you (constrained impersonation needs Kubernetes 1.36, and console.oidc.impersonation in the chart)", nil
	case err != nil:
		return "", err
	case got.User != who.User:
		return "", otherUser(who.User, got.User)
	}
	return "", nil
}

// may asks for a right of the manager.
func (c *Cluster) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	status, err := c.own().create(ctx, accessPath, &review)
	if err == nil && status != http.StatusCreated {
		err = unreviewed(status)
	}
	return review.Status.Allowed, err
}
