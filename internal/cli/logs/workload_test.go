package logs

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// answers are those of an API server with a Deployment of two pods, a Job of one, and a
// training job, by path.
var answers = map[string]string{
	"/version": `{"gitVersion":"v1.37.1"}`,
	"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},
{"name":"batch","versions":[{"groupVersion":"batch/v1","version":"v1"}],"preferredVersion":{"groupVersion":"batch/v1","version":"v1"}}]}`,
	"/api/v1":        `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","kind":"Pod","namespaced":true,"verbs":["get"]},{"name":"nodes","singularName":"node","kind":"Node","namespaced":false,"verbs":["get"]}]}`,
	"/apis/apps/v1":  `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"deployment","kind":"Deployment","namespaced":true,"verbs":["get"],"shortNames":["deploy"]}]}`,
	"/apis/batch/v1": `{"kind":"APIResourceList","groupVersion":"batch/v1","resources":[{"name":"jobs","singularName":"job","kind":"Job","namespaced":true,"verbs":["get"]}]}`,

	"/apis/apps/v1/namespaces/team/deployments/web":     `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"team"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`,
	"/apis/apps/v1/namespaces/team/deployments/idle":    `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"idle","namespace":"team"},"spec":{"selector":{"matchLabels":{"app":"idle"}}}}`,
	"/apis/apps/v1/namespaces/team/deployments/refused": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"refused","namespace":"team"},"spec":{"selector":{"matchLabels":{"app":"refused"}}}}`,
	"/apis/batch/v1/namespaces/team/jobs/convert":       `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"convert","namespace":"team"},"spec":{"selector":{"matchLabels":{"job":"convert"}}}}`,
	"/api/v1/namespaces/team/configmaps/settings":       `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}`,
	"/api/v1/namespaces/team/pods/web-1":                `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"team"},"spec":{"containers":[{"name":"main"},{"name":"side"}]}}`,

	"pods app=web": `{"kind":"PodList","apiVersion":"v1","items":[
{"metadata":{"name":"web-2","namespace":"team","creationTimestamp":"2026-01-02T00:00:00Z"},"spec":{"containers":[{"name":"main"}]}},
{"metadata":{"name":"web-1","namespace":"team","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"main"},{"name":"side"}]}}]}`,
	"pods app=refused": `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"refused-1","namespace":"team"},"spec":{"containers":[{"name":"main"}]},
"status":{"containerStatuses":[{"name":"main","restartCount":0,"state":{"waiting":{"reason":"Unsupported","message":"this node cannot run the image \"nginx\""}}}]}}]}`,
	"/apis/apps/v1/namespaces/team/deployments/waits": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"waits","namespace":"team"},"spec":{"selector":{"matchLabels":{"app":"waits"}}}}`,
	"pods app=waits":   `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"waits-1","namespace":"team"},"spec":{"containers":[{"name":"main"}]}}]}`,
	"log waits-1 main": "",
	"pods app=idle":    `{"kind":"PodList","apiVersion":"v1","items":[]}`,
	"pods job=convert": `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"convert-x","namespace":"team"},"spec":{"containers":[{"name":"main"}]}}]}`,

	"log web-1 main":     "started\nserving\n",
	"log web-1 side":     "beside",
	"log convert-x main": "converted 3 files\n",
}

func serve(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Path
	pods := "/api/v1/namespaces/team/pods"
	switch {
	case key == pods:
		key = "pods " + r.URL.Query().Get("labelSelector")
	case strings.HasSuffix(key, "/log"):
		key = "log " + strings.TrimSuffix(strings.TrimPrefix(key, pods+"/"), "/log") + " " + r.URL.Query().Get("container")
	}
	answer, found := answers[key]
	w.Header().Set("Content-Type", "application/json")
	if !found {
		w.WriteHeader(http.StatusNotFound)
		answer = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"%s is waiting to start"}`, key)
	}
	_, _ = fmt.Fprint(w, answer)
}

// TestWorkloads: the logs of any workload are those of its pods' containers.
func TestWorkloads(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(serve))
	defer server.Close()
	home := t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, server.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		args      []string
		out, errs string
		says      string // of the error
		code      exit.Code
	}{
		{"a deployment, one pod of which does not run", []string{"deploy/web"}, "web-1/main | started\nweb-1/main | serving\nweb-1/side | beside\n", "web-2/main: log web-2 main is waiting to start", "", exit.OK},
		{"a Job", []string{"job/convert"}, "converted 3 files\n", "", "", exit.OK},
		{"a pod's container", []string{"pod/web-1", "side"}, "beside", "", "", exit.OK},
		{"as it comes", []string{"pods/web-1", "main", "-f"}, "started\nserving\n", "", "", exit.OK},
		{"a pod that its node refuses", []string{"deploy/refused"}, "", "", "refused-1/main: it has not started: Unsupported: this node cannot run the image", exit.Failure},
		{"a pod without a node", []string{"deploy/waits"}, "", "", "waits-1/main: it has not started, because its pod waits for a node: `muster why pod/waits-1`", exit.Failure},
		{"no pods", []string{"deployments/idle"}, "", "deployments/idle has no pods now", "", exit.OK},
		{"no such deployment", []string{"deploy/absent"}, "", "", "there is no deployment absent in namespace team", exit.Missing},
		{"no such container", []string{"pod/web-1", "third"}, "", "", "pods/web-1 has no container third", exit.Missing},
		{"nothing with logs", []string{"configmap/settings"}, "", "", "a configmap has no pods", exit.Misuse},
		{"nothing in a namespace", []string{"node/n"}, "", "", "a node has no logs", exit.Misuse},
		{"a role of a deployment", []string{"deploy/web", "--role", "worker"}, "", "", "--role and --index name members of training jobs", exit.Misuse},
		{"a member of a training job", []string{"mnist/worker-0"}, "", "", "there is no training job mnist", exit.Missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			factory := connection.New(terminal.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, NoColor: true}, "test")
			factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
			cmd := New(factory)
			cmd.SetArgs(c.args)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err := cmd.ExecuteContext(t.Context())
			if code, _ := exit.Of(err); code != c.code || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it ended with %d: %v, want %d: %q", code, err, c.code, c.says)
			}
			if out.String() != c.out || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("it printed %q and %q, want %q and %q", &out, &errs, c.out, c.errs)
			}
		})
	}
}
