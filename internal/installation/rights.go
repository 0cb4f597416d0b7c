package installation

import (
	"context"
	"fmt"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The verbs that an installation needs of everything that it applies, and a
// removal of everything that it removes.
var (
	toApply  = []string{"get", "create", "patch"}
	toRemove = []string{"get", "delete"}
)

// right is one thing that somebody may do.
type right struct {
	verb, group, resource, namespace string
}

func (r right) String() string {
	kind := r.resource
	if r.group != "" {
		kind += "." + r.group
	}
	if r.namespace != "" {
		return fmt.Sprintf("%s %s in namespace %s", r.verb, kind, r.namespace)
	}
	return r.verb + " " + kind
}

// needed are the rights without which objects cannot be handled, each once.
func needed(objects []*unstructured.Unstructured, verbs []string) []right {
	var out []right
	for _, o := range objects {
		resource := resourceOf(o.GroupVersionKind())
		for _, verb := range verbs {
			r := right{verb, resource.Group, resource.Resource, o.GetNamespace()}
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// missing are those of the rights that whoever asks does not have.
func (c *Cluster) missing(ctx context.Context, rights []right) ([]string, error) {
	answers, errs := make([]bool, len(rights)), make([]error, len(rights))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, r := range rights {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answers[i], errs[i] = c.may(ctx, r)
		})
	}
	wg.Wait()
	var out []string
	for i, r := range rights {
		if errs[i] != nil {
			return nil, fmt.Errorf("asking whether you may %s: %w", r, errs[i])
		}
		if !answers[i] {
			out = append(out, r.String())
		}
	}
	return out, nil
}

func (c *Cluster) may(ctx context.Context, r right) (bool, error) {
	review, err := c.set.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: r.resource, Namespace: r.namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// escalations asks the server, by a dry run, for the roles that whoever asks
// must not give because they do not have the rights themselves. The answers
// are the server's words.
func (c *Cluster) escalations(ctx context.Context, objects []*unstructured.Unstructured) ([]string, error) {
	var out []string
	for _, o := range objects {
		if o.GroupVersionKind().Group != "rbac.authorization.k8s.io" || o.GetNamespace() != "" {
			continue
		}
		options := metav1.ApplyOptions{FieldManager: FieldOwner, Force: true, DryRun: []string{metav1.DryRunAll}}
		_, err := c.at(o).Apply(ctx, o.GetName(), o, options)
		switch {
		case apierrors.IsForbidden(err):
			out = append(out, fmt.Sprintf("give %s (you may give only rights that you have): %s", Title(o), firstLine(err.Error())))
		case apierrors.IsNotFound(err): // a binding to a role that is not there yet
		case err != nil:
			return nil, fmt.Errorf("trying %s: %w", Title(o), err)
		}
	}
	return out, nil
}

// crdResource is where CRDs are.
var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
