package delete

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// kinds are the resources of the server below, by their paths, with what discovery tells.
var kinds = map[string]string{
	"/api/v1":                   `{"name":"configmaps","singularName":"configmap","kind":"ConfigMap","namespaced":true,"verbs":["get","list","delete"],"shortNames":["cm"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get"]}`,
	"/apis/apps/v1":             `{"name":"deployments","singularName":"deployment","kind":"Deployment","namespaced":true,"verbs":["get","list","delete"],"shortNames":["deploy"]}`,
	"/apis/kubeflow.org/v1":     `{"name":"tfjobs","singularName":"tfjob","kind":"TFJob","namespaced":true,"verbs":["get","list","delete"]}`,
	"/apis/muster.dev/v1alpha1": `{"name":"trainingjobs","singularName":"trainingjob","kind":"TrainingJob","namespaced":true,"verbs":["get","list","delete"]}`,
}

// server is an API server with a few objects, by their paths below a namespace.
type server struct {
	mu      sync.Mutex
	objects map[string]string
	deleted []string
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	resources, discovery := kinds[r.URL.Path]
	object, found := s.objects[r.URL.Path]
	switch {
	case r.URL.Path == "/version":
		_, _ = fmt.Fprint(w, `{"gitVersion":"v1.37.1"}`)
	case r.URL.Path == "/api":
		_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case r.URL.Path == "/apis":
		var groups []string
		for _, version := range []string{"apps/v1", "kubeflow.org/v1", "muster.dev/v1alpha1"} {
			name, number, _ := strings.Cut(version, "/")
			groups = append(groups, fmt.Sprintf(`{"name":%q,"versions":[{"groupVersion":%q,"version":%q}],"preferredVersion":{"groupVersion":%q,"version":%q}}`, name, version, number, version, number))
		}
		_, _ = fmt.Fprintf(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[%s]}`, strings.Join(groups, ","))
	case discovery:
		_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`, strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"), resources)
	case found && r.Method == http.MethodDelete:
		s.deleted = append(s.deleted, r.URL.Path[strings.LastIndex(r.URL.Path, "/namespaces/")+len("/namespaces/"):])
		delete(s.objects, r.URL.Path)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	case found:
		_, _ = fmt.Fprint(w, object)
	case slices.ContainsFunc([]string{"/configmaps", "/deployments", "/trainingjobs", "/pods"}, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) }):
		s.list(w, r.URL.Path)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
	}
}

// list answers with all objects of a resource.
func (s *server) list(w http.ResponseWriter, path string) {
	items := []json.RawMessage{}
	for at, object := range s.objects {
		if strings.HasPrefix(at, path+"/") {
			items = append(items, json.RawMessage(object))
		}
	}
	kind, version := "List", "v1"
	if strings.HasSuffix(path, "/trainingjobs") {
		kind, version = "TrainingJobList", "muster.dev/v1alpha1"
	}
	answer := map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": items}
	_ = json.NewEncoder(w).Encode(answer)
}

// object is an object of the server, owned by another one if owner is not empty.
func object(version, kind, name, owner string) string {
	owners := ""
	if owner != "" {
		owners = fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"kubeflow.org/v1","kind":%q,"name":%q,"uid":"o","controller":true}]`, owner, name)
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"team","name":%q,"uid":"u-%s"%s}}`, version, kind, name, name, owners)
}

const manifests = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: other}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: cifar}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: gone-already}
---
apiVersion: novelty.example/v1
kind: Novelty
metadata: {name: unknown}
`

// TestDelete: objects of every kind are deleted, named in all the ways that get knows, and
// a name that is wrong deletes nothing.
func TestDelete(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string
		deleted []string
		says    string // of the error
	}{
		{"a training job", []string{"mnist"}, []string{"team/trainingjobs/mnist"}, ""},
		{"a kind and a name", []string{"deploy", "web"}, []string{"team/deployments/web"}, ""},
		{"pairs", []string{"deployment/web", "cm/settings"}, []string{"team/configmaps/settings", "team/deployments/web"}, ""},
		{"all of a kind", []string{"cm", "--all"}, []string{"team/configmaps/more", "team/configmaps/settings"}, ""},
		{"a TFJob", []string{"tfjob", "cifar"}, []string{"team/tfjobs/cifar", "team/trainingjobs/cifar"}, ""},
		{"all training jobs", []string{"--all"}, []string{"team/tfjobs/cifar", "team/trainingjobs/cifar", "team/trainingjobs/mnist"}, ""},
		{"manifests", []string{"-f", "-"}, []string{"other/deployments/web", "team/configmaps/settings", "team/tfjobs/cifar", "team/trainingjobs/cifar"}, ""},
		{"one of two that is not there", []string{"cm", "settings", "absent"}, nil, "there is no ConfigMap absent in namespace team"},
		{"one that may be absent", []string{"cm", "settings", "absent", "--ignore-not-found"}, []string{"team/configmaps/settings"}, ""},
		{"a training job that no TFJob made", []string{"tfjob", "mnist"}, nil, "there is no TFJob mnist in namespace team"},
		{"no such kind", []string{"novelty/x"}, nil, `the server knows no kind "novelty"`},
		{"a kind without names", []string{"cm"}, nil, "delete which of the configmaps?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{objects: map[string]string{
				"/api/v1/namespaces/team/configmaps/settings":                  object("v1", "ConfigMap", "settings", ""),
				"/api/v1/namespaces/team/configmaps/more":                      object("v1", "ConfigMap", "more", ""),
				"/apis/apps/v1/namespaces/team/deployments/web":                object("apps/v1", "Deployment", "web", ""),
				"/apis/apps/v1/namespaces/other/deployments/web":               object("apps/v1", "Deployment", "web", ""),
				"/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs/mnist": object("muster.dev/v1alpha1", "TrainingJob", "mnist", ""),
				"/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs/cifar": object("muster.dev/v1alpha1", "TrainingJob", "cifar", "TFJob"),
				"/apis/kubeflow.org/v1/namespaces/team/tfjobs/cifar":           object("kubeflow.org/v1", "TFJob", "cifar", ""),
			}}
			err := invoke(t, s, c.args)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want %q", err, c.says)
			}
			slices.Sort(s.deleted)
			if diff := cmp.Diff(c.deleted, s.deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// invoke runs the command on a server; deleting a TFJob deletes its training job there.
func invoke(t *testing.T, s *server, args []string) error {
	t.Helper()
	collect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/tfjobs/cifar") {
			again := r.Clone(r.Context())
			again.URL.Path = "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs/cifar"
			s.ServeHTTP(httptest.NewRecorder(), again)
		}
	})
	listening := httptest.NewServer(collect)
	defer listening.Close()
	home := t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, listening.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	factory := connection.New(terminal.Streams{In: strings.NewReader(manifests), Out: &out, Err: &errs, NoColor: true}, "test")
	factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	cmd := New(factory)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	if coded, ok := errors.AsType[*exit.Error](err); err != nil && (!ok || coded.Code == exit.Failure) {
		t.Errorf("an error without a code of its own: %v\n%s", err, &errs)
	}
	return err
}
