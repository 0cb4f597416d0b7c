package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// awaitEstablished watches a custom kind's definition, from the state crd on,
// until the API server says that it serves it, and returns the state that says
// so.
func awaitEstablished(ctx context.Context, definitions dynamic.ResourceInterface, crd *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for establishedCondition(crd) == nil {
		changes, err := definitions.Watch(ctx, metav1.ListOptions{
			FieldSelector:   "metadata.name=" + crd.GetName(),
			ResourceVersion: crd.GetResourceVersion(),
		})
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", crd.GetName(), err)
		}
		for event := range changes.ResultChan() {
			next, ok := event.Object.(*unstructured.Unstructured)
			if event.Type == watch.Error || !ok {
				break
			}
			if crd = next; establishedCondition(crd) != nil {
				break
			}
		}
		changes.Stop()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("waiting for %s to be served: %w", crd.GetName(), context.Cause(ctx))
		}
	}
	return crd, nil
}

// establishedCondition is the condition, part of crd, that says that the kind
// is served; nil while it does not.
func establishedCondition(crd *unstructured.Unstructured) map[string]any {
	status, _ := crd.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if ok && condition["type"] == "Established" && condition["status"] == "True" {
			return condition
		}
	}
	return nil
}

// holdBack is how long the API server makes creations of a new kind wait: as
// long as the kind's definition says that it was established less than this
// ago, each of them takes this long.
const holdBack = 2 * time.Second

// heldBack reports whether creations of an established kind are made to wait at
// now.
func heldBack(crd *unstructured.Unstructured, now time.Time) bool {
	text, _ := establishedCondition(crd)[transitionTime].(string)
	since, err := time.Parse(time.RFC3339, text)
	return err == nil && now.Sub(since) < holdBack
}

const transitionTime = "lastTransitionTime"

// releaseCreations makes the API server take objects of a kind at once that was
// established less than the hold-back before now. The hold-back gives other API
// servers of the same storage time to hear of the kind; there is only this one.
// What it goes by is the time in the condition, so that time is set back; the
// condition itself stays as the API server found it. A kind that was there
// before is left alone.
func releaseCreations(ctx context.Context, definitions dynamic.ResourceInterface, crd *unstructured.Unstructured, now time.Time) error {
	name := crd.GetName()
	return retry(ctx, fmt.Sprintf("releasing the creation of %s", name), func(ctx context.Context) error {
		if !heldBack(crd, now) {
			return nil
		}
		released := crd.DeepCopy()
		establishedCondition(released)[transitionTime] = now.Add(-holdBack).UTC().Format(time.RFC3339)
		_, err := definitions.UpdateStatus(ctx, released, metav1.UpdateOptions{FieldManager: fieldManager})
		if !apierrors.IsConflict(err) {
			return err
		}
		// The API server has written something else there meanwhile.
		latest, again := definitions.Get(ctx, name, metav1.GetOptions{})
		if again == nil && establishedCondition(latest) != nil {
			crd = latest
		}
		return errors.Join(err, again)
	})
}

// awaitServed waits until a list of the custom kind is answered: being
// established and being routed to are two moments.
func awaitServed(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	kinds, err := servedKinds(crd)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		err := retry(ctx, fmt.Sprintf("waiting for %s to be served", crd.GetName()), func(ctx context.Context) error {
			_, err := client.Resource(k.resource).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// servedKind is a custom kind in one of its served versions.
type servedKind struct {
	schema.GroupVersionKind
	resource schema.GroupVersionResource
}

// servedKinds are the served versions of a definition.
func servedKinds(crd *unstructured.Unstructured) ([]servedKind, error) {
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", crd.GetName(), err)
	}
	names := map[string]string{}
	for _, name := range []string{"plural", "kind"} {
		if names[name], _, err = unstructured.NestedString(crd.Object, "spec", "names", name); err != nil {
			return nil, fmt.Errorf("reading %s: %w", crd.GetName(), err)
		}
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", crd.GetName(), err)
	}
	var served []servedKind
	for _, entry := range versions {
		version, ok := entry.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		in := schema.GroupVersion{Group: group, Version: name}
		served = append(served, servedKind{in.WithKind(names["kind"]), in.WithResource(names["plural"])})
	}
	return served, nil
}
