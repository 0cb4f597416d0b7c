package installation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Compare finds the updates of a plan that would change nothing. The server applies each update as
// a dry run, with its defaults, and Compare compares the result with the existing object.
func (c *Cluster) Compare(ctx context.Context, p *Plan) error {
	options := metav1.ApplyOptions{FieldManager: FieldOwner, Force: true, DryRun: []string{metav1.DryRunAll}}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Action != Update {
			continue
		}
		there, err := c.get(ctx, s.Object)
		if err != nil {
			return err
		}
		then, err := c.at(s.Object).Apply(ctx, s.Object.GetName(), s.Object, options)
		if apierrors.IsNotFound(err) {
			continue // of a kind or namespace that comes with the installation
		}
		if err != nil {
			return fmt.Errorf("trying %s: %w", Title(s.Object), err)
		}
		if there != nil && same(there, then) {
			s.Action = Same
		}
	}
	return nil
}

// same reports that two states of an object differ in no field but those by which the
// server counts writes.
func same(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(plain(a), plain(b))
}

func plain(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	return o.Object
}
