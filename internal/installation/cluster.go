package installation

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// FieldOwner owns the fields that are applied.
const FieldOwner = "muster-install"

// Cluster is the Kubernetes that Muster is installed on.
type Cluster struct {
	objects dynamic.Interface
	set     kubernetes.Interface
}

// Connect makes the clients for a cluster. It asks nothing.
func Connect(config *rest.Config) (*Cluster, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return connect(config, shared)
}

func connect(config *rest.Config, shared *http.Client) (*Cluster, error) {
	objects, err := dynamic.NewForConfigAndClient(config, shared)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	set, err := kubernetes.NewForConfigAndClient(config, shared)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Cluster{objects: objects, set: set}, nil
}

// Server is what an API server is.
type Server struct {
	// Version is its version, such as v1.37.1.
	Version string
	// Kinds are those that it serves of which the chart asks.
	Kinds []string
	// Recent reports that it serves what came with the oldest version that is
	// supported: what counts where a server does not know its version.
	Recent bool
}

// asked are the kinds that not every supported server has.
var asked = []schema.GroupVersionKind{
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "FlowSchema"},
}

// Stamps reports that the server can write the submitting user into objects.
func (s Server) Stamps() bool {
	return slices.ContainsFunc(s.Kinds, func(kind string) bool { return strings.HasSuffix(kind, "/MutatingAdmissionPolicy") })
}

// Server asks for the server's version and kinds.
func (c *Cluster) Server(context.Context) (Server, error) {
	version, err := c.set.Discovery().ServerVersion()
	if err != nil {
		return Server{}, fmt.Errorf("asking the server for its version: %w", err)
	}
	s := Server{Version: version.GitVersion}
	for _, kind := range asked {
		list, err := c.set.Discovery().ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return Server{}, fmt.Errorf("asking the server for its kinds of %s: %w", kind.GroupVersion(), err)
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
			s.Kinds = append(s.Kinds, kind.GroupVersion().String()+"/"+kind.Kind)
		}
	}
	_, err = c.set.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1")
	if err != nil && !apierrors.IsNotFound(err) {
		return Server{}, fmt.Errorf("asking the server for its kinds of resource.k8s.io/v1: %w", err)
	}
	s.Recent = err == nil
	return s, nil
}

// resourceOf is the resource of a kind. The chart's kinds are all regular.
func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural
}

// at is where objects of o's kind and namespace are.
func (c *Cluster) at(o *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := c.objects.Resource(resourceOf(o.GroupVersionKind()))
	if namespace := o.GetNamespace(); namespace != "" {
		return resource.Namespace(namespace)
	}
	return resource
}

// get reads what is there under an object's name; nil if nothing is, or if the
// server does not know the kind yet.
func (c *Cluster) get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	there, err := c.at(o).Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", Title(o), err)
	}
	return there, nil
}

// Title names an object for people: "Deployment muster-system/muster-manager".
func Title(o *unstructured.Unstructured) string {
	if namespace := o.GetNamespace(); namespace != "" {
		return o.GetKind() + " " + namespace + "/" + o.GetName()
	}
	return o.GetKind() + " " + o.GetName()
}
