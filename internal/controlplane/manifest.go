package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/charts"
)

const (
	// annotationManifest is, on an object that Start applied, the hash of its
	// manifest: while it matches, the object is left alone.
	annotationManifest = "muster.dev/manifest"
	// fieldManager owns the fields that Start applies.
	fieldManager = "muster-up"
	// retryInterval paces requests that the server is not ready for yet.
	retryInterval = 20 * time.Millisecond
)

//go:embed manifests/*.yaml
var builtin embed.FS

// resources are those of the kinds that manifests may have.
var resources = map[schema.GroupKind]schema.GroupVersionResource{
	{Kind: "Namespace"}:                             {Version: "v1", Resource: "namespaces"},
	{Kind: "Service"}:                               {Version: "v1", Resource: "services"},
	{Kind: "ServiceAccount"}:                        {Version: "v1", Resource: "serviceaccounts"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}: {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	{Group: crdGroup, Kind: crdKind}:                crdResource,
}

const (
	crdGroup = "apiextensions.k8s.io"
	crdKind  = "CustomResourceDefinition"
)

var crdResource = schema.GroupVersionResource{Group: crdGroup, Version: "v1", Resource: "customresourcedefinitions"}

// furnish waits until the API server is ready and makes the manifests exist,
// at the same time: most of them can be written before it calls itself ready. Then
// it waits until clients find all custom kinds.
func (c *ControlPlane) furnish(whole context.Context) error {
	group, ctx := errgroup.WithContext(whole)
	group.Go(func() error { return awaitHealth(ctx, c.admin, c.order.ReadyPath()) })
	if c.options.Bare {
		return group.Wait()
	}
	manifests, err := furniture()
	if err != nil {
		return errors.Join(err, group.Wait())
	}
	impatient := rest.CopyConfig(c.admin)
	impatient.Wrap(func(next http.RoundTripper) http.RoundTripper { return atOnce{next} })
	client, err := dynamic.NewForConfig(impatient)
	if err != nil {
		return errors.Join(fmt.Errorf("making a client: %w", err), group.Wait())
	}
	for _, manifest := range manifests {
		group.Go(func() error { return install(ctx, client, manifest) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := awaitDiscovered(whole, impatient, client, manifests); err != nil || !c.settings.Shared {
		return err
	}
	if err := c.govern(whole, impatient, client); err != nil {
		return err
	}
	c.settings.Shared = c.options.Shared != nil
	return c.settings.save(c.options.DataDir)
}

// furniture is everything that must exist.
func furniture() ([]manifest, error) {
	own, err := readManifests(charts.CRD, builtin)
	if err != nil {
		return nil, err
	}
	foreign, err := readManifests(charts.Kubeflow)
	for i := range foreign {
		foreign[i].yields = true
	}
	return append(own, foreign...), err
}

// atOnce hides from a client the server's wish to be asked again later: while
// its routes are being set up it wishes for five seconds, and needs none.
type atOnce struct{ next http.RoundTripper }

func (a atOnce) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// awaitHealth waits until the API server's answer at path is ok.
func awaitHealth(ctx context.Context, config *rest.Config, path string) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.CloseIdleConnections()
	return retry(ctx, "waiting for the API server to be ready", func(ctx context.Context) error {
		return get(ctx, client, config.Host+path)
	})
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<10))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}

// retry calls try until it returns nil; when ctx ends first, the error tells
// why the last try failed.
func retry(ctx context.Context, doing string, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return false, err // Asking again would not help.
		}
		if err != nil && (last == nil || ctx.Err() == nil) {
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil || last == nil:
		return fmt.Errorf("%s: %w", doing, err)
	default:
		return fmt.Errorf("%s: %w (last answer: %w)", doing, context.Cause(ctx), last)
	}
}

// manifest is an object that must exist.
type manifest struct {
	object   *unstructured.Unstructured
	resource schema.GroupVersionResource
	hash     string
	// yields is true for a manifest that leaves alone what somebody else made
	// of its name.
	yields bool
}

// readManifests reads every YAML document of every file.
func readManifests(systems ...fs.FS) ([]manifest, error) {
	var manifests []manifest
	for _, system := range systems {
		err := fs.WalkDir(system, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(system, path)
			if err != nil {
				return err
			}
			read, err := decodeManifests(data)
			if err != nil {
				return fmt.Errorf("decoding %s: %w", path, err)
			}
			manifests = append(manifests, read...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the built-in manifests: %w", err)
		}
	}
	return manifests, nil
}

func decodeManifests(data []byte) ([]manifest, error) {
	var manifests []manifest
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return manifests, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		kind := object.GroupVersionKind().GroupKind()
		resource, known := resources[kind]
		if !known {
			return nil, fmt.Errorf("a manifest of kind %s is not expected here", kind)
		}
		encoded, err := object.MarshalJSON()
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(encoded)
		hash := hex.EncodeToString(sum[:8])
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationManifest] = hash
		object.SetAnnotations(annotations)
		manifests = append(manifests, manifest{object: object, resource: resource, hash: hash})
	}
}

// install makes m exist as its manifest says, by server-side apply unless it
// does already, and waits until a custom kind is served.
func install(ctx context.Context, client dynamic.Interface, m manifest) error {
	name := m.object.GetName()
	objects := dynamic.ResourceInterface(client.Resource(m.resource))
	if namespace := m.object.GetNamespace(); namespace != "" {
		objects = client.Resource(m.resource).Namespace(namespace)
	}
	var there *unstructured.Unstructured
	yielded := false
	err := retry(ctx, fmt.Sprintf("creating %s %q", m.object.GetKind(), name), func(ctx context.Context) error {
		var err error
		there, err = objects.Get(ctx, name, metav1.GetOptions{})
		if err == nil && there.GetAnnotations()[annotationManifest] == m.hash {
			return nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if yielded = err == nil && m.yields && there.GetAnnotations()[annotationManifest] == ""; yielded {
			return nil
		}
		there, err = objects.Apply(ctx, name, m.object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return err
	})
	if err != nil || yielded || m.resource != crdResource {
		return err
	}
	if there, err = awaitEstablished(ctx, objects, there); err != nil {
		return err
	}
	if err := releaseCreations(ctx, objects, there, time.Now()); err != nil {
		return err
	}
	return awaitServed(ctx, client, there)
}
