package stores

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestMoveObjects: datasets of all namespaces become those of the owner, and data may be
// collected only once nothing elsewhere needs it.
func TestMoveObjects(t *testing.T) {
	o := newOld(t)
	must(t, Upgrade(o.home, "u-1000"))
	dataset := func(namespace, name, uid string) *v1alpha1.Dataset {
		d := &v1alpha1.Dataset{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
		d.Spec.Description = namespace + "/" + name
		return d
	}
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	pipeline := &v1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	// What an interrupted move left: digits is in both namespaces.
	half := dataset("u-1000", "digits", "3")
	half.Annotations = map[string]string{movedFrom: "1"}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		dataset("default", "digits", "1"), half, dataset("default", "words", "2"), dataset("lab", "words", "4"), pipeline).Build()

	if err := MoveObjects(t.Context(), api, o.home); err == nil || !strings.Contains(err.Error(), "pipeline default/p are in other namespaces") {
		t.Errorf("with a pipeline elsewhere: %v", err)
	}
	if pending, err := Pending(o.home); err != nil || pending != "u-1000" {
		t.Errorf("pending: %q, %v", pending, err)
	}
	must(t, api.Delete(t.Context(), pipeline))
	must(t, MoveObjects(t.Context(), api, o.home))
	if pending, err := Pending(o.home); err != nil || pending != "" {
		t.Errorf("pending: %q, %v", pending, err)
	}
	var all v1alpha1.DatasetList
	must(t, api.List(t.Context(), &all))
	found := map[string]string{}
	for i := range all.Items {
		found[all.Items[i].Namespace+"/"+all.Items[i].Name] = all.Items[i].Spec.Description
	}
	if len(found) != 3 || found["u-1000/words"] != "default/words" || found["u-1000/words-lab"] != "lab/words" || found["u-1000/digits"] == "" {
		t.Errorf("datasets: %v", found)
	}
	must(t, MoveObjects(t.Context(), errorClient{}, o.home)) // nothing is left to do
}

// errorClient is no server.
type errorClient struct{ client.Client }
