package kubectl

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

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"Name","type":"string"}],
"rows":[{"cells":["web"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web"}}}]}`

// serve answers as an API server with one ConfigMap would, and returns a data folder
// whose kubeconfig leads there.
func serve(t *testing.T) (home string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer string
		status := http.StatusOK
		switch r.URL.Path {
		case "/api":
			answer = `{"kind":"APIVersions","versions":["v1"]}`
		case "/apis":
			answer = `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`
		case "/api/v1":
			answer = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"configmap","kind":"ConfigMap","namespaced":true,"verbs":["get","list"],"shortNames":["cm"]}]}`
		case "/api/v1/namespaces/team/configmaps":
			answer = table
		default:
			answer, status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"configmaps \"absent\" not found"}`, http.StatusNotFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	home = t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, server.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// invoke runs muster kubectl with a data folder, and returns its output and its error.
func invoke(t *testing.T, home string, args ...string) (out, errs string, err error) {
	t.Helper()
	t.Setenv("KUBECACHEDIR", t.TempDir())
	t.Setenv("KUBERC", "off")
	var stdout, stderr bytes.Buffer
	factory := connection.New(terminal.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, "test")
	factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	cmd := New(factory)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestItIsTheRealOne: kubectl reads from the server of the data folder, its errors have
// its words and its exit code, and a program in PATH is no command of it.
func TestItIsTheRealOne(t *testing.T) {
	home := serve(t)
	plugins := t.TempDir()
	if err := os.WriteFile(filepath.Join(plugins, "kubectl-hello"), []byte("#!/bin/sh\necho a plugin ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", plugins+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name      string
		args      []string
		out, errs string
		code      exit.Code
	}{
		{"a list", []string{"get", "cm"}, "NAME\nweb\n", "", exit.OK},
		{"an object that is not there", []string{"get", "cm", "absent"}, "", `Error from server (NotFound): configmaps "absent" not found`, exit.Failure},
		{"a kind that is not there", []string{"get", "novelty"}, "", `error: the server doesn't have a resource type "novelty"`, exit.Failure},
		{"no such command", []string{"obliterate"}, "", `error: unknown command "obliterate" for "kubectl"`, exit.Failure},
		{"a plugin", []string{"hello"}, "", `error: unknown command "hello" for "kubectl"`, exit.Failure},
		{"the home, before the command", []string{"--home", home, "get", "cm"}, "NAME\nweb\n", "", exit.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, err := invoke(t, home, c.args...)
			if code, say := exit.Of(err); code != c.code || say {
				t.Errorf("it ended with %d: %v", code, err)
			}
			if out != c.out || !strings.Contains(errs, c.errs) {
				t.Errorf("it printed %q and %q, want %q and %q", out, errs, c.out, c.errs)
			}
		})
	}
}

// TestWithoutAMuster: a command for a server fails with the error that no Muster is running; others
// run.
func TestWithoutAMuster(t *testing.T) {
	home := t.TempDir()
	_, _, err := invoke(t, home, "get", "pods")
	if code, _ := exit.Of(err); code != exit.Missing || !strings.Contains(err.Error(), "no Muster is running here") {
		t.Errorf("get pods: %v", err)
	}
	out, _, err := invoke(t, home, "create", "configmap", "a", "--from-literal=b=c", "--dry-run=client", "-o", "name")
	if err != nil || out != "configmap/a\n" {
		t.Errorf("a dry run printed %q: %v", out, err)
	}
}

// TestTheHomeIsTakenOut: --home is Muster's where it stands before the command alone.
func TestTheHomeIsTakenOut(t *testing.T) {
	for _, c := range []struct {
		args, rest []string
		home       string
		wrong      bool
	}{
		{[]string{"get", "pods"}, []string{"get", "pods"}, "", false},
		{[]string{"--home", "/d", "get", "pods"}, []string{"get", "pods"}, "/d", false},
		{[]string{"-n", "team", "--home=/d", "get", "pods"}, []string{"-n", "team", "get", "pods"}, "/d", false},
		{[]string{"exec", "web", "--", "tool", "--home", "/d"}, []string{"exec", "web", "--", "tool", "--home", "/d"}, "", false},
		{[]string{"run", "web", "--home=/d"}, []string{"run", "web", "--home=/d"}, "", false},
		{[]string{"--home"}, nil, "", true},
	} {
		rest, home, err := takeHome(c.args)
		if diff := cmp.Diff(c.rest, rest); diff != "" || home != c.home || (err != nil) != c.wrong {
			t.Errorf("%q: %q and home %q: %v\n%s", c.args, rest, home, err, diff)
		}
	}
}

// TestProposals: kubectl's completions reach the shell, with their directive.
func TestProposals(t *testing.T) {
	home := serve(t)
	t.Setenv("KUBECACHEDIR", t.TempDir())
	factory := connection.New(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, "test")
	factory.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	got, directive := complete(t.Context(), factory, []string{"rollout", "res"})
	if len(got) != 2 || !strings.HasPrefix(got[0], "restart\t") || !strings.HasPrefix(got[1], "resume\t") || directive != 4 {
		t.Errorf("proposals: %q, %d", got, directive)
	}
}
