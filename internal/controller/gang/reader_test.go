package gang

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// reader reads the objects of a fake client. The fake client itself sends
// every object that is read through JSON and back, which was most of what
// these tests spent their time on; copying them is the same to whoever
// reads.
type reader struct {
	tracker clienttesting.ObjectTracker
	scheme  *runtime.Scheme
}

// over lets a client's reads be answered by the reader.
func (r reader) over(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Get: r.get, List: r.list})
}

func (r reader) get(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, r.scheme)
	if err != nil {
		return err
	}
	found, err := r.tracker.Get(resourceOf(kind), key.Namespace, key.Name)
	if err != nil {
		return err
	}
	return assign(into, found) // the tracker gives copies
}

func (r reader) list(_ context.Context, _ client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(into, r.scheme)
	if err != nil {
		return err
	}
	kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	found, err := r.tracker.List(resourceOf(kind), kind, options.Namespace)
	if err != nil {
		return err
	}
	if options.LabelSelector == nil && options.FieldSelector == nil {
		return assign(into, found)
	}
	all, err := meta.ExtractList(found)
	if err != nil {
		return err
	}
	chosen := make([]runtime.Object, 0, len(all))
	for _, o := range all {
		if selects(options, o.(client.Object)) {
			chosen = append(chosen, o)
		}
	}
	return meta.SetList(into, chosen)
}

// selects reports whether an object is among those asked for.
func selects(options client.ListOptions, o client.Object) bool {
	if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false
	}
	if options.FieldSelector == nil {
		return true
	}
	for _, gang := range indexByGang(o) {
		if options.FieldSelector.Matches(fields.Set{indexGang: gang}) {
			return true
		}
	}
	return false
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural
}

// assign sets what one pointer points at to what another does.
func assign(to, from any) error {
	t, f := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	if t.Type() != f.Type() {
		return fmt.Errorf("reading a %s as a %s", f.Type(), t.Type())
	}
	t.Set(f)
	return nil
}
