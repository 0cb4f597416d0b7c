package apply

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/imagecheck"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/manifest"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// young is an API server that has just started.
type young struct {
	// refuses is the number of times that it refuses a job with refusal, a status.
	refuses int
	refusal string
	// kinds are the kinds of its discovery, found after it was asked misses times.
	kinds   []string
	misses  int
	applied int
}

const (
	notReady = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"Resource kind muster.dev/v1alpha1, Kind=TrainingJob not found. There can be a delay between when CustomResourceDefinitions are created and when they are available."}`
	noPath   = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource","details":{}}`
	noJob    = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"trainingjobs.muster.dev \"mnist\" not found"}`
)

// ServeHTTP implements [http.Handler].
func (y *young) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const group = "/apis/muster.dev/v1alpha1"
	status := http.StatusOK
	var answer string
	switch {
	case r.URL.Path == "/version":
		answer = `{"gitVersion":"v1.37.1"}`
	case r.URL.Path == "/api":
		answer = `{"kind":"APIVersions","versions":["v1"]}`
	case r.URL.Path == "/apis":
		answer = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"muster.dev","versions":[{"groupVersion":"muster.dev/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"muster.dev/v1alpha1","version":"v1alpha1"}}]}`
	case r.URL.Path == group:
		kinds := []string{}
		if y.misses--; y.misses < 0 {
			for _, kind := range y.kinds {
				kinds = append(kinds, fmt.Sprintf(`{"name":%q,"kind":%q,"namespaced":true,"verbs":["get"]}`, strings.ToLower(kind)+"s", kind))
			}
		}
		answer = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"muster.dev/v1alpha1","resources":[` + strings.Join(kinds, ",") + `]}`
	case r.Method == http.MethodPatch && y.refuses > 0:
		y.refuses--
		status, answer = http.StatusServiceUnavailable, y.refusal
		if y.refusal == noPath {
			status = http.StatusNotFound
		}
	case r.Method == http.MethodPatch:
		y.applied++
		body, _ := io.ReadAll(r.Body)
		answer = string(body)
	default:
		status, answer = http.StatusNotFound, noJob
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

// TestAServerThatHasJustStarted: a job is taken by a server that was not ready for it at
// once, and that learns of its kind meanwhile; a kind that it does not have is named.
func TestAServerThatHasJustStarted(t *testing.T) {
	for name, c := range map[string]struct {
		server young
		kind   string
		says   string // of the error
		waits  bool
	}{
		"one that is ready":                      {server: young{}, kind: "TrainingJob"},
		"its policies do not know jobs yet":      {server: young{refuses: 1, refusal: notReady}, kind: "TrainingJob", waits: true},
		"it does not serve jobs yet":             {server: young{refuses: 1, refusal: noPath, kinds: []string{"TrainingJob"}}, kind: "TrainingJob"},
		"it serves no jobs":                      {server: young{refuses: 9, refusal: noPath, kinds: []string{"Gang"}}, kind: "TrainingJob", says: "the server knows no kind TrainingJob"},
		"its discovery learns of a kind":         {server: young{kinds: []string{"Novelty"}, misses: 1}, kind: "Novelty"},
		"its discovery has no such kind at last": {server: young{kinds: []string{"Gang"}}, kind: "Novelty", says: "the server knows no kind Novelty"},
	} {
		t.Run(name, func(t *testing.T) {
			server := c.server
			listening := httptest.NewServer(&server)
			defer listening.Close()
			home := t.TempDir()
			config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, listening.URL)
			if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			job := "apiVersion: muster.dev/v1alpha1\nkind: " + c.kind + "\nmetadata: {name: mnist}\n"
			out, errs := &bytes.Buffer{}, &bytes.Buffer{}
			factory := connection.New(terminal.Streams{In: strings.NewReader(job), Out: out, Err: errs, NoColor: true}, "test")
			factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
			cmd := New(factory)
			cmd.SetArgs([]string{"-f", "-"})
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err := cmd.ExecuteContext(t.Context())
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the error is %v, want %q", err, c.says)
			}
			if applied := server.applied == 1; applied != (c.says == "") {
				t.Errorf("it was applied %d times", server.applied)
			}
			if waits := strings.Contains(errs.String(), "takes no objects of kind TrainingJob yet; waiting"); waits != c.waits {
				t.Errorf("it says %q", errs)
			}
		})
	}
}

// TestKindsOfOthers: a kind of another system is refused with the way to do its work here, before
// its name is checked.
func TestKindsOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		document string
		says     string
	}{
		"a Volcano job":      {"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n", "the server knows no kind Job of batch.volcano.sh/v1alpha1: write it as a TrainingJob"},
		"an Argo workflow":   {"apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {generateName: a-}\n", "knows no kind Workflow of argoproj.io/v1alpha1: write the steps as stages of a Pipeline"},
		"another version":    {"apiVersion: muster.dev/v1\nkind: TrainingJob\nmetadata: {name: a}\n", "it has TrainingJob as muster.dev/v1alpha1; write that apiVersion"},
		"an unknown system":  {"apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}\n", "knows no kind Service of serving.knative.dev/v1; `muster kubectl api-resources` lists"},
		"no name, and known": {"apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {generateName: a-}\n", "its name is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := give(t, &young{}, c.document); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestNoNamespace: the error for a missing namespace has the command that creates it.
func TestNoNamespace(t *testing.T) {
	server := &young{refuses: 1, refusal: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"namespaces \"team\" not found","details":{"name":"team","kind":"namespaces"}}`}
	err := give(t, server, "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n")
	if err == nil || !strings.Contains(err.Error(), "there is no namespace team: `muster kubectl create namespace team` makes it") {
		t.Error(err)
	}
}

// TestForeseen: apply prints why a TFJob that the server accepts cannot run.
func TestForeseen(t *testing.T) {
	const ends = "spec: {runPolicy: {managedBy: %q}, tfReplicaSpecs: {}}"
	for name, c := range map[string]struct {
		kind, manager, says string
	}{
		"without replicas":    {"TFJob", "", "a.yaml: TFJob a would be refused: spec.tfReplicaSpecs has no replicas"},
		"that Muster manages": {"TFJob", kubeflowv1.ManagedByMuster, "would be refused"},
		"of another manager":  {"TFJob", "kueue.x-k8s.io/multikueue", ""},
		"another kind":        {"ConfigMap", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := manifest.Read(strings.NewReader("apiVersion: kubeflow.org/v1\nkind: "+c.kind+"\nmetadata: {name: a}\n"+fmt.Sprintf(ends, c.manager)), []string{"-"})
			if err != nil {
				t.Fatal(err)
			}
			documents[0].At = "a.yaml"
			var errs bytes.Buffer
			o := &options{factory: connection.New(terminal.Streams{Err: &errs, NoColor: true}, "test")}
			o.foresee(nil, documents[0])
			if (errs.Len() == 0) != (c.says == "") || !strings.Contains(errs.String(), c.says) {
				t.Errorf("it says %q, want %q", &errs, c.says)
			}
		})
	}
}

// TestForeseenImage: apply warns of an image that this machine cannot run.
func TestForeseenImage(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := instance.Home(home).Write(instance.State{Images: "none: images can be run by root alone, and this Muster is not"}); err != nil {
		t.Fatal(err)
	}
	for image, says := range map[string]string{"box:2": `warning: standard input: this machine cannot run the image "box:2": images can be run by root alone`, v1alpha1.HostImage: ""} {
		documents, err := manifest.Read(strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: \""+image+"\"}]}\n---\n{}\n"), []string{"-"})
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		o := &options{factory: connection.New(terminal.Streams{Err: &errs, NoColor: true}, "test")}
		o.factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
		o.foresee(imagecheck.Of(o.factory), documents[0])
		if (errs.Len() == 0) != (says == "") || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: it says %q, want %q", image, &errs, says)
		}
	}
}

// give applies a document at a server.
func give(t *testing.T, server *young, document string) error {
	t.Helper()
	listening := httptest.NewServer(server)
	defer listening.Close()
	home := t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, listening.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	factory := connection.New(terminal.Streams{In: strings.NewReader(document), Out: io.Discard, Err: io.Discard, NoColor: true}, "test")
	factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	cmd := New(factory)
	cmd.SetArgs([]string{"-f", "-"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	return cmd.ExecuteContext(t.Context())
}
