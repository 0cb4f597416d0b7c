package serve

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/muster-dev/muster/internal/cli/connection"
)

// cluster is what the fake API server says of itself.
type cluster struct {
	minor string
	// groups are the group versions that it serves, with their resources.
	groups map[string][]string
	// denied is a verb and a resource that is not allowed, and down an error of
	// every answer about rights.
	denied string
	down   error
}

func (c cluster) set(t *testing.T) *fake.Clientset {
	t.Helper()
	set := fake.NewClientset()
	discovery, ok := set.Discovery().(*fakediscovery.FakeDiscovery)
	if !ok {
		t.Fatal("the fake clientset has another discovery")
	}
	discovery.FakedServerVersion = &version.Info{Major: "1", Minor: c.minor, GitVersion: "v1." + c.minor + ".0"}
	for group, names := range c.groups {
		list := &metav1.APIResourceList{GroupVersion: group}
		for _, name := range names {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		set.Resources = append(set.Resources, list)
	}
	set.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		review, ok := create.GetObject().(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return false, nil, nil
		}
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = a.Verb+" "+a.Resource != c.denied
		return true, review, c.down
	})
	return set
}

func TestWhatIsRefused(t *testing.T) {
	ours := map[string][]string{"muster.dev/v1alpha1": kinds}
	for name, tt := range map[string]struct {
		cluster cluster
		says    []string
		// waits is true for what is asked again.
		waits bool
	}{
		"all is well":       {cluster: cluster{minor: "34", groups: ours}},
		"a provider's":      {cluster: cluster{minor: "36+", groups: ours}},
		"too old":           {cluster: cluster{minor: "33", groups: ours}, says: []string{"Kubernetes v1.33.0", "needs 1.34", "muster up"}},
		"nothing installed": {cluster: cluster{minor: "37"}, says: []string{"are not on this cluster", "muster install"}},
		"another version":   {cluster: cluster{minor: "37", groups: map[string][]string{"muster.dev/v1beta1": kinds}}, says: []string{"in version v1beta1", "needs v1alpha1"}},
		"a kind is missing": {cluster: cluster{minor: "37", groups: map[string][]string{"muster.dev/v1alpha1": {"gangs", "placements", "trainingjobs"}}}, says: []string{"queues", "muster install"}},
		"no rights":         {cluster: cluster{minor: "37", groups: ours, denied: "create pods"}, says: []string{"may not", "create pods", "muster install"}},
		"it does not answer": {
			cluster: cluster{minor: "37", groups: ours, down: errors.New("connection refused")}, says: []string{"connection refused"}, waits: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := inspect(t.Context(), tt.cluster.set(t))
			if (err == nil) != (tt.says == nil) {
				t.Fatalf("error %v", err)
			}
			var no refusal
			if err != nil && errors.As(err, &no) == tt.waits {
				t.Errorf("is waited for: %v (%v)", !tt.waits, err)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	good := options{factory: &connection.Factory{}, gpus: []string{"nvidia.com/gpu"}, health: "127.0.0.1:0", metrics: "0", lease: 15e9, door: "0", store: store{quota: "20Gi", retention: time.Hour}, data: holdings{prefix: "data", quota: "1Ti"}, front: front{address: "0"}}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*options){
		"--autoscaler-after":                func(o *options) { o.scaling.On, o.scaling.Most = true, 1 },
		"--autoscaler-ask-by a b":           func(o *options) { o.scaling.AskBy = "a b" },
		"--departure-sign":                  func(o *options) { o.signs = []string{"spot=soon"} },
		"--gpu-resource gpu":                func(o *options) { o.gpus = []string{"gpu"} },
		"--metrics 8080":                    func(o *options) { o.metrics = "8080" },
		"--health x":                        func(o *options) { o.health = "x" },
		"--door 8443":                       func(o *options) { o.door = "8443" },
		"--store-folder and":                func(o *options) { o.store.folder, o.store.bucket.Endpoint = "/x", "https://s3.test" },
		"--store-s3-endpoint and":           func(o *options) { o.store.bucket.Bucket = "x" },
		"--store-quota 0":                   func(o *options) { o.store.quota = "0" },
		"--store-retention 1s":              func(o *options) { o.store.retention = time.Second },
		"--lease 10ms":                      func(o *options) { o.lease = 1e7 },
		`--default-image "muster.dev/host"`: func(o *options) { o.image = "muster.dev/host" },
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			edit(&o)
			if err := o.check(); err == nil || !strings.HasPrefix(err.Error(), name) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// An older server's kinds lack fields of this version, which are named.
func TestFieldsThatAreMissing(t *testing.T) {
	files := fstest.MapFS{"crd/gangs.yaml": {Data: []byte(`
spec:
  names: {kind: Gang}
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        properties:
          metadata: {properties: {x: {}}}
          spec: {properties: {roles: {items: {properties: {name: {}, gpus: {}}}}, startTimeout: {}}}
`)}}
	for name, tt := range map[string]struct {
		theirs string
		want   []string
	}{
		"the same":     {`{"metadata": {}, "spec": {"properties": {"startTimeout": {}, "more": {}, "roles": {"items": {"properties": {"name": {}, "gpus": {}}}}}}}`, nil},
		"older":        {`{"metadata": {}, "spec": {"properties": {"roles": {"items": {"properties": {"name": {}}}}}}}`, []string{"Gang.spec.roles[].gpus", "Gang.spec.startTimeout"}},
		"without spec": {`{"metadata": {}}`, []string{"Gang.spec"}},
	} {
		t.Run(name, func(t *testing.T) {
			document := `{"components": {"schemas": {"dev.muster.v1alpha1.Gang": {"properties": ` + tt.theirs + `}}}}`
			got, err := lacking([]byte(document), files)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
