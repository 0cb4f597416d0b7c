package delete

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// held is a cluster on which nothing that is deleted ends. lease is the time at which a
// manager led last.
func held(s *server, lease time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/"):
			_, _ = fmt.Fprintf(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":%q}}`,
				lease.UTC().Format("2006-01-02T15:04:05.000000Z"))
		case r.URL.Path == "/api/v1/namespaces/team/pods":
			_, _ = fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"namespace":"team","name":"mnist-worker-0","labels":{"muster.dev/job":"mnist","muster.dev/role":"worker","muster.dev/index":"0"},
"annotations":{"muster.dev/gpus":"GPU-a,GPU-b"}},"spec":{"nodeName":"gpu-1"},"status":{"phase":"Running"}}]}`)
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/configmaps/settings"):
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		default:
			s.ServeHTTP(w, r)
		}
	})
}

// TestDeleteEnds: delete does not wait for ever for what nothing ends, and names what holds
// it and what to do.
func TestDeleteEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		lease time.Duration
		says  []string
	}{
		{"no manager", []string{"mnist"}, time.Hour, []string{
			"mnist is not gone after ", "no manager of Muster runs, so worker-0 (2 GPUs) cannot end", "kubectl -n team delete pods -l muster.dev/job=mnist"}},
		{"no manager, with a bound", []string{"mnist", "--timeout", "30ms"}, time.Hour, []string{"no manager of Muster runs"}},
		{"a manager", []string{"mnist", "--timeout", "30ms"}, 0, []string{"the manager has not yet told worker-0 to end"}},
		{"a finalizer", []string{"cm/settings", "--timeout", "30ms"}, 0, []string{"configmap/settings is not gone after", "finalizers example.com/a, example.com/b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{objects: map[string]string{
				"/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs/mnist": object("muster.dev/v1alpha1", "TrainingJob", "mnist", ""),
				"/api/v1/namespaces/team/configmaps/settings": strings.Replace(object("v1", "ConfigMap", "settings", ""),
					`"uid"`, `"finalizers":["example.com/a","example.com/b"],"uid"`, 1),
			}}
			listening := httptest.NewServer(held(s, time.Now().Add(-c.lease)))
			defer listening.Close()
			err := onCluster(t, listening.URL, c.args)
			if code, _ := exit.Of(err); code != exit.Failure {
				t.Fatalf("exit code %d, %v", code, err)
			}
			for _, words := range c.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v\ndoes not say %q", err, words)
				}
			}
		})
	}
}

// onCluster runs the command on a cluster, which a kubeconfig names. It looks for the
// manager every 30 ms.
func onCluster(t *testing.T, server string, args []string) error {
	t.Helper()
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "cluster")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, server)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	factory := connection.New(terminal.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, NoColor: true}, "test")
	factory.Getenv = func(name string) string {
		return map[string]string{connection.EnvHome: home, "KUBECONFIG": kubeconfig}[name]
	}
	o := &options{factory: factory, every: 30 * time.Millisecond}
	cmd := o.command()
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	return cmd.ExecuteContext(t.Context())
}
