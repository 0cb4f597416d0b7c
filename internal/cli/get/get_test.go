package get

import (
	"bytes"
	"fmt"
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

const table = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},
"columnDefinitions":[{"name":"Name","type":"string"},{"name":"Phase","type":"string"},{"name":"Wide","type":"string","priority":1}],
"rows":[{"cells":["mnist","Running","extra"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"mnist","namespace":"team"}}}]}`

// serve answers as an API server with one job would, and returns a home whose
// kubeconfig leads there.
func serve(t *testing.T) (home string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RequestURI())
		w.Header().Set("Content-Type", "application/json")
		jobs := "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs"
		switch {
		case r.URL.Path == jobs && strings.Contains(r.Header.Get("Accept"), "as=Table"), r.URL.Path == "/apis/muster.dev/v1alpha1/trainingjobs", r.URL.Path == jobs+"/mnist" && strings.Contains(r.Header.Get("Accept"), "as=Table"):
			_, _ = fmt.Fprint(w, table)
		case r.URL.Path == jobs+"/mnist":
			_, _ = fmt.Fprint(w, `{"apiVersion":"muster.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"mnist","managedFields":[{"manager":"x"}]}}`)
		case r.URL.Path == "/version":
			_, _ = fmt.Fprint(w, `{"gitVersion":"v1.37.1"}`)
		case r.URL.Path == "/api" || r.URL.Path == "/apis":
			_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
		}
	}))
	t.Cleanup(server.Close)
	home = t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, server.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home, asked
}

func TestGet(t *testing.T) {
	home, asked := serve(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "NAME    PHASE\nmnist   Running\n"},
		{[]string{"tj"}, "NAME    PHASE\nmnist   Running\n"},
		{[]string{"trainingjobs", "-o", "wide", "--no-headers"}, "mnist   Running   extra\n"},
		{[]string{"-A"}, "NAMESPACE   NAME    PHASE\nteam        mnist   Running\n"},
		{[]string{"mnist", "-o", "name"}, "trainingjob.muster.dev/mnist\n"},
		{[]string{"tj/mnist", "-o", "json"}, "{\n  \"apiVersion\": \"muster.dev/v1alpha1\",\n  \"kind\": \"TrainingJob\",\n  \"metadata\": {\n    \"name\": \"mnist\"\n  }\n}\n"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			*asked = nil
			if err := run(t, home, &out, &errs, test.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			// One for each kind of Kubeflow, to show those that were refused.
			if len(test.args) == 0 && len(*asked) != 3 {
				t.Errorf("a list of jobs took %d requests: %v", len(*asked), *asked)
			}
		})
	}
}

func TestGetWhatIsMissing(t *testing.T) {
	home, _ := serve(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"mnits"}, "there is no training job mnits in namespace team"},
		{[]string{"pdos,tj"}, `the server knows no kind "pdos"; did you mean pods?`},
	} {
		var out, errs bytes.Buffer
		err := run(t, home, &out, &errs, test.args)
		if code, _ := exit.Of(err); err == nil || err.Error() != test.want || code != exit.Missing {
			t.Errorf("%v: error %v", test.args, err)
		}
	}
}

func run(t *testing.T, home string, out, errs *bytes.Buffer, args []string) error {
	t.Helper()
	factory := connection.New(terminal.Streams{In: strings.NewReader(""), Out: out, Err: errs}, "test")
	factory.Getenv = func(name string) string {
		if name == connection.EnvHome {
			return home
		}
		return ""
	}
	cmd := New(factory)
	factory.AddFlags(cmd.PersistentFlags())
	cmd.SetArgs(append([]string{}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(t.Context())
}
