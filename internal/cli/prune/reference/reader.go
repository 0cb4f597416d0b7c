package reference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment/retention"
)

// Reader finds out what is referred to.
type Reader struct {
	// Server is the API server of the data folder, no other's.
	Server dynamic.Interface
	// Home is the data folder.
	Home string
	// Images are those of the configuration: some may run in an environment of
	// the data folder.
	Images configuration.Images
}

// kinds are what may refer to something, in the order in which a reference
// travels: a job's gang is there before the job lets go, and a gang's pods
// before the gang does, so that nothing slips past between two lists.
var kinds = []schema.GroupVersionResource{
	v1alpha1.GroupVersion.WithResource("pipelines"),
	v1alpha1.GroupVersion.WithResource("pipelineruns"),
	v1alpha1.GroupVersion.WithResource("trainingjobs"),
	v1alpha1.GroupVersion.WithResource("gangs"),
	{Version: "v1", Resource: "pods"},
}

// pageSize is how many objects are asked for at once.
const pageSize = 500

// Read returns everything that is referred to. Any hash in an object counts,
// whatever field it is in.
func (r Reader) Read(ctx context.Context) (retention.References, error) {
	each, err := r.ReadEach(ctx)
	return each.All(), err
}

// Each is what is referred to, by who does.
type Each struct {
	// objects are those of the objects of each namespace, machine those of what this
	// machine still runs and of its configuration.
	objects map[string]*retention.References
	machine retention.References
}

// Has reports whether a namespace, or what this machine still runs, refers to a thing.
func (e *Each) Has(namespace, name string) bool {
	own := e.objects[namespace]
	return own != nil && own.Has(name) || e.machine.Has(name)
}

// mention notes the references in a text of an object.
func (e *Each) mention(namespace, text string) {
	own := e.objects[namespace]
	if own == nil {
		own = &retention.References{}
		e.objects[namespace] = own
	}
	own.Mention(text)
}

// All are the references of all together.
func (e *Each) All() (all retention.References) {
	all.Add(e.machine)
	for _, own := range e.objects {
		all.Add(*own)
	}
	return all
}

// ReadEach is Read, by namespace.
func (r Reader) ReadEach(ctx context.Context) (Each, error) {
	found := Each{objects: map[string]*retention.References{}}
	for _, target := range r.Images {
		found.machine.Mention(target.Environment)
	}
	for _, kind := range kinds {
		if err := r.list(ctx, kind, &found); err != nil {
			return Each{}, fmt.Errorf("listing the %s: %w", kind.Resource, err)
		}
	}
	// What runs here last: a pod that the server no longer has is still on disk.
	if err := readNode(r.Home, &found.machine); err != nil {
		return Each{}, err
	}
	return found, nil
}

// list reads all objects of a kind as they are stored, fields included that
// this program does not know.
func (r Reader) list(ctx context.Context, kind schema.GroupVersionResource, found *Each) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := r.Server.Resource(kind).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := mention(&page.Items[i], found); err != nil {
				return err
			}
		}
		next := page.GetContinue()
		if next == "" {
			return nil
		}
		if next == options.Continue {
			return errors.New("the server answers with the same page again")
		}
		options.Continue = next
	}
}

func mention(object *unstructured.Unstructured, found *Each) error {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("reading %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	found.mention(object.GetNamespace(), string(text))
	return nil
}
