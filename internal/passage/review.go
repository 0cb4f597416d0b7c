package passage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

const rightsPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

// readable are the resources that the manager reads for a caller, by group. It reads them for itself too.
// Secrets and subresources are not among them.
var readable = map[string][]string{
	"":                {"nodes", "pods", "namespaces", "resourcequotas"},
	"resource.k8s.io": {"resourceslices", "resourceclaims"},
	"muster.dev":      {"trainingjobs", "gangs", "placements", "queues", "pipelines", "pipelineruns", "datasets"},
}

// reviewer reads with the manager's credential what a SubjectAccessReview allows to the caller, and writes
// nothing.
type reviewer struct {
	cluster *Cluster
	who     session.Caller
}

// RoundTrip implements [http.RoundTripper].
func (v *reviewer) RoundTrip(r *http.Request) (*http.Response, error) {
	what, ok := attributes(r, v.cluster.server.Path)
	if !ok {
		return forbidden(r, fmt.Sprintf("%s may only read nodes, pods and objects of Muster here", v.who.User))
	}
	allowed, err := v.allowed(r.Context(), what)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return forbidden(r, fmt.Sprintf("User %q cannot %s resource %q in API group %q", v.who.User, what.Verb, what.Resource, what.Group))
	}
	return v.cluster.own().RoundTrip(r)
}

// allowed asks the API server for a right of the caller.
func (v *reviewer) allowed(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review := authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: v.who.User, Groups: append(slices.Clone(v.who.Groups), "system:authenticated"), ResourceAttributes: &what}}
	status, err := v.cluster.own().create(ctx, rightsPath, &review)
	if err == nil && status != http.StatusCreated {
		err = unreviewed(status)
	}
	return review.Status.Allowed && !review.Status.Denied, err
}

func unreviewed(status int) error {
	return &web.Problem{Status: http.StatusBadGateway, Err: fmt.Errorf("the API server does not answer a question about rights (status %d)", status)}
}

// attributes returns what a request reads. It knows lists, watches and single objects of [readable], and
// refuses all else.
func attributes(r *http.Request, base string) (what authorizationv1.ResourceAttributes, ok bool) {
	if r.Method != http.MethodGet || r.Header.Get("Upgrade") != "" || r.URL.EscapedPath() != r.URL.Path {
		return what, false
	}
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(base, "/")), "/"), "/")
	if slices.ContainsFunc(parts, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		return what, false
	}
	switch {
	case len(parts) > 2 && parts[0] == "api" && parts[1] == "v1":
		what.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		what.Group, what.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return what, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		what.Namespace, parts = parts[1], parts[2:]
	}
	what.Resource, what.Verb = parts[0], "list"
	if len(parts) == 2 {
		what.Name, what.Verb = parts[1], "get"
	}
	watch := r.URL.Query()["watch"]
	switch {
	case len(watch) > 1 || len(watch) == 1 && what.Name != "": // the API server could read it in another way
		return what, false
	case len(watch) == 1 && watch[0] != "false" && watch[0] != "0":
		what.Verb = "watch"
	}
	return what, len(parts) <= 2 && slices.Contains(readable[what.Group], what.Resource)
}

// forbidden answers as an API server does.
func forbidden(r *http.Request, message string) (*http.Response, error) {
	text, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: message})
	if err != nil {
		return nil, err
	}
	return &http.Response{Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)), Request: r}, nil
}
