package controlplane

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// awaitDiscovered waits until the API server's discovery has all custom kinds of the
// manifests that are established: clients such as kubectl ask it where a kind is, and
// it learns of a kind after the kind is served. Definitions of others count too, in
// the versions that they serve.
func awaitDiscovered(ctx context.Context, config *rest.Config, client dynamic.Interface, manifests []manifest) error {
	var kinds []servedKind
	for _, m := range manifests {
		if m.resource != crdResource {
			continue
		}
		crd, err := client.Resource(crdResource).Get(ctx, m.object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && establishedCondition(crd) == nil {
			continue // another's, and not served
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", m.object.GetName(), err)
		}
		served, err := servedKinds(crd)
		if err != nil {
			return err
		}
		kinds = append(kinds, served...)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return retry(ctx, "waiting for the custom kinds to be found", func(ctx context.Context) error {
		return discovered(ctx, finder, kinds)
	})
}

// discovered returns an error that names a kind that is missing in the aggregated
// document, or in that of its group and version, which older clients read.
func discovered(ctx context.Context, finder *discovery.DiscoveryClient, kinds []servedKind) error {
	_, aggregated, _, err := finder.GroupsAndMaybeResourcesWithContext(ctx)
	if err != nil {
		return err
	}
	single := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, k := range kinds {
		in := k.GroupVersion()
		if aggregated != nil && !lists(aggregated[in], k.Kind) {
			return fmt.Errorf("the aggregated discovery has no %s", k)
		}
		if single[in] == nil {
			if single[in], err = finder.ServerResourcesForGroupVersionWithContext(ctx, in.String()); err != nil {
				return err
			}
		}
		if !lists(single[in], k.Kind) {
			return fmt.Errorf("the discovery of %s has no %s", in, k.Kind)
		}
	}
	return nil
}

func lists(list *metav1.APIResourceList, kind string) bool {
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}
