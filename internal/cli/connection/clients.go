package connection

import (
	"fmt"
	"net/http"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/people/userapi"
)

// clients are made once, on first use. They share one pool of connections.
type clients struct {
	http      *http.Client
	typed     client.WithWatch
	set       *kubernetes.Clientset
	dynamic   *dynamic.DynamicClient
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
	visitor   *visitor.Visitor
}

// Scheme returns the kinds that typed clients know: Kubernetes's own and
// Muster's.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the Kubernetes kinds: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Muster's kinds: %w", err)
	}
	return scheme, nil
}

// shared returns the configuration and the pool of connections.
func (f *Factory) shared() (*rest.Config, *http.Client, error) {
	config, err := f.restConfig()
	if err != nil {
		return nil, nil, err
	}
	if f.made.http == nil {
		f.made.http, err = rest.HTTPClientFor(config)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the kubeconfig %s: %w", f.source.path(), err)
		}
	}
	return config, f.made.http, nil
}

// Connections returns the client configuration of the server, and the connection pool that all
// clients share.
func (f *Factory) Connections() (*rest.Config, *http.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shared()
}

// Client returns a client for typed objects of the kinds of [Scheme].
func (f *Factory) Client() (client.WithWatch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made.typed != nil {
		return f.made.typed, nil
	}
	config, connections, err := f.shared()
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	mapper, err := f.restMapper()
	if err != nil {
		return nil, err
	}
	f.made.typed, err = client.NewWithWatch(config, client.Options{
		HTTPClient: connections, Scheme: scheme, Mapper: mapper, FieldOwner: FieldOwner,
	})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return f.made.typed, nil
}

// Clientset returns a client for what only the generated clients offer: logs
// and exec of pods.
func (f *Factory) Clientset() (*kubernetes.Clientset, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made.set != nil {
		return f.made.set, nil
	}
	config, connections, err := f.shared()
	if err != nil {
		return nil, err
	}
	f.made.set, err = kubernetes.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return f.made.set, nil
}

// Dynamic returns a client for objects of any kind.
func (f *Factory) Dynamic() (dynamic.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made.dynamic != nil {
		return f.made.dynamic, nil
	}
	config, connections, err := f.shared()
	if err != nil {
		return nil, err
	}
	f.made.dynamic, err = dynamic.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return f.made.dynamic, nil
}

// REST returns a client for the paths of one API group and version, decoding
// with a scheme that knows only meta kinds: for tables.
func (f *Factory) REST(version schema.GroupVersion, codec runtime.NegotiatedSerializer) (*rest.RESTClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	config, connections, err := f.shared()
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.GroupVersion = &version
	own.NegotiatedSerializer = codec
	own.APIPath = "/apis"
	if version.Group == "" {
		own.APIPath = "/api"
	}
	made, err := rest.RESTClientForConfigAndClient(own, connections)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", version, err)
	}
	return made, nil
}

// Mapper returns the mapping from kinds and resources, in all their spellings,
// to the server's paths. Muster's own kinds and the commonest of Kubernetes
// need no question to the server.
func (f *Factory) Mapper() (meta.RESTMapper, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.restMapper()
}

func (f *Factory) restMapper() (meta.RESTMapper, error) {
	if f.made.mapper != nil {
		return f.made.mapper, nil
	}
	found, err := f.discoveryClient()
	if err != nil {
		return nil, err
	}
	deferred := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(found), found, nil)
	f.made.mapper = meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known(), &reached{RESTMapper: deferred, discovery: found}}}
	return f.made.mapper, nil
}

// Rediscover forgets which kinds the server has, after new ones were made.
func (f *Factory) Rediscover() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made.discovery != nil {
		f.made.discovery.Invalidate()
	}
	f.made.mapper = nil
}

func (f *Factory) discoveryClient() (discovery.CachedDiscoveryInterface, error) {
	if f.made.discovery != nil {
		return f.made.discovery, nil
	}
	config, connections, err := f.shared()
	if err != nil {
		return nil, err
	}
	plain, err := discovery.NewDiscoveryClientForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	f.made.discovery = memory.NewMemCacheClient(plain)
	return f.made.discovery, nil
}

// reached asks the server for its version before it asks for its kinds: on a
// server that is away, the libraries below would write to standard error what
// the user is told anyway.
type reached struct {
	meta.RESTMapper
	discovery discovery.ServerVersionInterface
}

// KindFor implements meta.RESTMapper.
func (r *reached) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if _, err := r.discovery.ServerVersion(); err != nil {
		return schema.GroupVersionKind{}, err
	}
	return r.RESTMapper.KindFor(resource)
}

// RESTMapping implements meta.RESTMapper.
func (r *reached) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if _, err := r.discovery.ServerVersion(); err != nil {
		return nil, err
	}
	return r.RESTMapper.RESTMapping(kind, versions...)
}

// Mapper returns the mapping of kinds for a server of a configuration, as [Factory.Mapper] does.
func Mapper(config *rest.Config) (meta.RESTMapper, error) {
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	found, err := apiutil.NewDynamicRESTMapper(config, connections)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{known(), found}}, nil
}

// known maps the kinds that every server of Muster has. Only full names and
// Muster's own short ones: anything else is the server's to say.
func known() meta.RESTMapper {
	core := schema.GroupVersion{Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion, core, resourcev1.SchemeGroupVersion})
	for _, kind := range []string{"TrainingJob", "Dataset", "Gang", "Placement", "Pipeline", "PipelineRun"} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(v1alpha1.GroupVersion.WithKind("Queue"), meta.RESTScopeRoot)
	mapper.Add(resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"), meta.RESTScopeRoot)
	mapper.AddSpecific(v1alpha1.GroupVersion.WithKind("TrainingJob"), v1alpha1.GroupVersion.WithResource("trainingjobs"),
		v1alpha1.GroupVersion.WithResource("tj"), meta.RESTScopeNamespace)
	for _, kind := range []string{"Pod", "Event", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim"} {
		mapper.Add(core.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Node", "Namespace", "PersistentVolume"} {
		mapper.Add(core.WithKind(kind), meta.RESTScopeRoot)
	}
	return mapper
}

// ToRESTConfig makes the factory a RESTClientGetter, for kubectl's packages.
func (f *Factory) ToRESTConfig() (*rest.Config, error) { return f.RESTConfig() }

// ToDiscoveryClient makes the factory a RESTClientGetter.
func (f *Factory) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.discoveryClient()
}

// ToRESTMapper makes the factory a RESTClientGetter.
func (f *Factory) ToRESTMapper() (meta.RESTMapper, error) { return f.Mapper() }

// ToRawKubeConfigLoader makes the factory a RESTClientGetter.
func (f *Factory) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	loader, _, err := f.loader()
	if err != nil {
		return clientcmd.NewDefaultClientConfig(*emptyConfig(), nil)
	}
	return loader
}

// Visitor returns the way to the door: of a cluster's manager by its API server, of the
// machine's Muster by its socket.
func (f *Factory) Visitor() (*visitor.Visitor, error) {
	api, err := f.Client()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	config, connections, err := f.shared()
	if err != nil {
		return nil, err
	}
	switch {
	case f.made.visitor != nil:
	case f.source.kind == Box:
		f.made.visitor = visitor.OnMachine(connections, boxHost+userapi.DoorPath)
	default:
		f.made.visitor, err = visitor.Through(config, connections, api)
	}
	return f.made.visitor, err
}

// Reach returns a client and the namespace that the command acts in.
func (f *Factory) Reach() (client.WithWatch, string, error) {
	server, err := f.Client()
	if err != nil {
		return nil, "", err
	}
	namespace, err := f.Namespace()
	return server, namespace, err
}
