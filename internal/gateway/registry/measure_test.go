package registry

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

// TestMeasure: a commit that a branch moves to is measured in the store of the branch's
// namespace.
func TestMeasure(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := fake.NewClientBuilder().WithScheme(scheme)
	for _, namespace := range []string{"ann", "bob"} {
		objects.WithObjects(&v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "digits"}})
	}
	var asked []string
	r := &Registry{Client: objects.Build(), Measure: func(_ context.Context, namespace string, _ digest.ID) (dataset.Size, error) {
		asked = append(asked, namespace)
		return dataset.Size{Bytes: 7}, nil
	}}
	move := ref.Move{Name: ref.Name{Kind: ref.Branch, Name: "main"}, To: digest.Of([]byte("commit"))}
	for _, namespace := range []string{"ann", "bob"} {
		if err := r.Heads(namespace, "digits").Swap(t.Context(), move); err != nil {
			t.Fatal(err)
		}
		object := &v1alpha1.Dataset{}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "digits"}, object); err != nil {
			t.Fatal(err)
		}
		if len(object.Spec.Branches) != 1 || object.Spec.Branches[0].Bytes != 7 {
			t.Errorf("the dataset of %s has %+v", namespace, object.Spec)
		}
	}
	if !slices.Equal(asked, []string{"ann", "bob"}) {
		t.Errorf("commits are measured for %q", asked)
	}
	r.Measure = nil
	if err := r.Heads("ann", "digits").Swap(t.Context(), ref.Move{Name: move.Name, From: move.To, To: digest.Of([]byte("next"))}); err != nil {
		t.Error(err)
	}
}
