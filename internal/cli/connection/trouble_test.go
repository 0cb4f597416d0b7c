package connection

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// TestExplainNobodyAnswers: where the server is gone, the words and the exit code are
// the same for every kind, whether or not the server has to be asked for its path.
func TestExplainNobodyAnswers(t *testing.T) {
	home := deadHome(t)
	kinds := []schema.GroupVersionKind{{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "nobody.example", Version: "v1", Kind: "Unknown"}}
	for _, kind := range ownKinds(t) {
		kinds = append(kinds, v1alpha1.GroupVersion.WithKind(kind))
	}
	for _, kind := range kinds {
		t.Run(kind.Kind, func(t *testing.T) {
			f := New(terminal.Streams{}, "test")
			f.Getenv = func(name string) string { return map[string]string{EnvHome: home}[name] }
			server, err := f.Client()
			if err != nil {
				t.Fatal(err)
			}
			mapper, err := f.Mapper()
			if err != nil {
				t.Fatal(err)
			}
			if _, err = mapper.RESTMapping(kind.GroupKind(), kind.Version); err == nil {
				object, err := server.Scheme().New(kind)
				if err != nil {
					t.Fatal(err)
				}
				checkNobody(t, f, home, server.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "x"}, object.(client.Object)))
				return
			}
			checkNobody(t, f, home, fmt.Errorf("reading x: %w", err))
		})
	}
}

func checkNobody(t *testing.T, f *Factory, home string, err error) {
	t.Helper()
	said := f.Explain(err)
	code, _ := exit.Of(said)
	if code != exit.Missing || !strings.Contains(said.Error(), "no Muster is running here (looked in "+home+"; nobody answers") {
		t.Errorf("exit code %d, %v; want %d", code, said, exit.Missing)
	}
}

// TestMapperKnowsOwnKinds: no command about a kind of Muster's asks the server where it
// is, and what is known is what the kinds' definitions say.
func TestMapperKnowsOwnKinds(t *testing.T) {
	mapper := known()
	for _, kind := range ownKinds(t) {
		mapping, err := mapper.RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		resource := mapping.Resource.Resource
		definition, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "muster", "crd", v1alpha1.GroupVersion.Group+"_"+resource+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		scope := map[bool]string{true: "Namespaced", false: "Cluster"}[mapping.Scope.Name() == "namespace"]
		if !strings.Contains(string(definition), "\n  scope: "+scope+"\n") {
			t.Errorf("%s is known as %s, its definition says otherwise", kind, scope)
		}
	}
}

// ownKinds are the kinds of Muster's that can be read, sorted.
func ownKinds(t *testing.T) []string {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for kind := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		object, err := scheme.New(v1alpha1.GroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if made, err := apiutil.GVKForObject(object, scheme); err != nil || made.Group != v1alpha1.GroupVersion.Group {
			continue
		}
		if _, ok := object.(client.Object); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	if !slices.Contains(kinds, "PipelineRun") {
		t.Fatalf("the scheme has %v", kinds)
	}
	return kinds
}

// deadHome is the data folder of a Muster that is gone: its kubeconfig leads to a port
// of loopback on which nobody listens.
func deadHome(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	config := `apiVersion: v1
kind: Config
clusters: [{name: m, cluster: {server: "http://` + address + `"}}]
contexts: [{name: m, context: {cluster: m}}]
current-context: m
`
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// The error of a missing right names the users with the right; other errors keep their text.
func TestWithoutARight(t *testing.T) {
	f := New(terminal.Streams{}, "test")
	f.config = &rest.Config{Host: "https://cluster.example.com"}
	status := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403, Message: message}}
	}
	nodes := status(`nodes is forbidden: User "ada" cannot list resource "nodes" in API group "" at the cluster scope`)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"of the cluster": {fmt.Errorf("listing the nodes: %w", nodes), "listing the nodes: ada may not list nodes of the whole cluster; ask an administrator of the cluster to do this, or to give you the right"},
		"in a namespace": {status(`secrets "a" is forbidden: User "ada" cannot get resource "secrets" in API group "" in the namespace "vision"`),
			"ada may not get secrets in namespace vision; ask an administrator of the cluster to do this, or to give you the right"},
		"a quota":      {status(`pods "a" is forbidden: exceeded quota: q`), `pods "a" is forbidden: exceeded quota: q`},
		"told already": {exit.With(exit.Failure, &told{nodes}), "you may not see nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.Explain(c.err)
			if got.Error() != c.want || !apierrors.IsForbidden(got) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// told is an error that was reworded before.
type told struct{ error }

func (*told) Error() string   { return "you may not see nodes" }
func (t *told) Unwrap() error { return t.error }
