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
)

// tfjob is a TFJob with its conditions.
func tfjob(name string, conditions string) string {
	return fmt.Sprintf(`{"apiVersion":"kubeflow.org/v1","kind":"TFJob","metadata":{"namespace":"team","name":%q},"status":{"conditions":[%s]}}`, name, conditions)
}

// refusing answers as an API server with a training job, mnist, and TFJobs of all states.
func refusing(w http.ResponseWriter, r *http.Request) {
	const claimed = `{"type":"Created","status":"True","reason":"TFJobCreated","message":"Muster runs this job as the TrainingJob of the same name.`
	tfjobs := map[string]string{
		"refused": tfjob("refused", claimed+`"},{"type":"Failed","status":"True","reason":"TFJobFailedValidation","message":"it cannot be run as it is written: no replicas"}`),
		"blocked": tfjob("blocked", claimed+` Not yet: exceeded quota."}`),
		"foreign": tfjob("foreign", `{"type":"Failed","status":"True","reason":"x","message":"of an operator"}`),
	}
	w.Header().Set("Content-Type", "application/json")
	base, name := "/apis/kubeflow.org/v1/namespaces/team/tfjobs", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs") && (name == "trainingjobs" || name == "mnist"):
		_, _ = fmt.Fprint(w, strings.Replace(table, `{"name":"Wide"`, `{"name":"Reason","type":"string"},{"name":"Wide"`, 1))
	case r.URL.Path == base:
		var rows []string
		for _, one := range [][2]string{{"mnist", "Running"}, {"refused", "Failed"}, {"blocked", "Created"}, {"foreign", "Failed"}, {"unread", "Succeeded"}, {"secret", "Failed"}} {
			rows = append(rows, fmt.Sprintf(`{"cells":[%q,%q,"1m"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"team"}}}`, one[0], one[1], one[0]))
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name"},{"name":"State"},{"name":"Age"}],"rows":[%s]}`, strings.Join(rows, ","))
	case strings.HasPrefix(r.URL.Path, base+"/") && tfjobs[name] != "":
		_, _ = fmt.Fprint(w, tfjobs[name])
	case r.URL.Path == "/version":
		_, _ = fmt.Fprint(w, `{"gitVersion":"v1.37.1"}`)
	case r.URL.Path == "/api":
		_, _ = fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case r.URL.Path == "/apis":
		_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"kubeflow.org","versions":[{"groupVersion":"kubeflow.org/v1","version":"v1"}],"preferredVersion":{"groupVersion":"kubeflow.org/v1","version":"v1"}}]}`)
	case r.URL.Path == "/apis/kubeflow.org/v1":
		_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"kubeflow.org/v1","resources":[{"name":"tfjobs","singularName":"tfjob","kind":"TFJob","namespaced":true,"verbs":["get","list"]}]}`)
	case name == "secret": // of a user who may list, and not get
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden"}`)
	case name == "unread":
		w.WriteHeader(http.StatusInternalServerError) // one that succeeded is not looked at
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
	}
}

// TestGetRefused checks that get reports a TFJob without a training job.
func TestGetRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(refusing))
	defer server.Close()
	home := t.TempDir()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"team"}}],"users":[{"name":"u","user":{}}]}`, server.URL)
	if err := os.WriteFile(filepath.Join(home, "kubeconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	const advice = "Correct that in the manifest, then `muster delete tfjob/refused` and `muster apply` it again"
	for _, c := range []struct {
		args []string
		out  string
		says string // of the error, or on standard error
	}{
		{nil, "mnist           Running   extra\ntfjob/refused   Failed    it cannot be run as it is written: no replicas\ntfjob/blocked   Waiting   Not yet: exceeded quota.\n", ""},
		{[]string{"refused"}, "tfjob/refused   Failed   it cannot be run as it is written: no replicas   ", advice},
		{[]string{"refused", "-o", "yaml"}, "", advice},
		{[]string{"refused", "-o", "name"}, "", advice},
		{[]string{"foreign"}, "", "there is no training job foreign in namespace team"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			if err := run(t, home, &out, &errs, append(c.args, "--no-headers")); err != nil {
				errs.WriteString(err.Error())
			}
			if got := out.String(); c.out == "" && got != "" || !strings.HasPrefix(got, c.out) {
				t.Errorf("output (-want +got):\n%s", cmp.Diff(c.out, got))
			}
			if !strings.Contains(errs.String(), c.says) {
				t.Errorf("%q does not say %q", &errs, c.says)
			}
		})
	}
}
