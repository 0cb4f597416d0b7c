//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestRefusedOnTheCommandLine are the wrong inputs that never reach the server.
func TestRefusedOnTheCommandLine(t *testing.T) {
	m := isolated(t)
	dir := folder(t, map[string]string{"train.py": "print(1)\n"})
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"parameter servers without workers", []string{"--ps", "2", "--", "python3", "train.py"}, "worker"},
		{"negative workers", []string{"--workers", "-1", "--", "true"}, "-1"},
		{"huge workers", []string{"--workers", "1000000", "--", "true"}, "1000"},
		{"unknown framework", []string{"--framework", "Caffe", "--", "true"}, "TensorFlow"},
		{"a word as GPU count", []string{"--gpus", "two", "--", "true"}, "two"},
		{"one and a half GPUs", []string{"--gpus", "1.5", "--", "true"}, "1.5"},
		{"a script that is missing", []string{"--script", "trian.py"}, "train.py"},
		{"no command", nil, "command"},
		{"a name that cannot be", []string{"--name", "My Job!", "--", "true"}, "lower-case"},
		{"requirements that are missing", []string{"--requirements", "none.txt", "--", "true"}, "none.txt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := m.RunIn(deadline(t, 30*time.Second), dir, append([]string{"run"}, c.args...)...)
			if r.Code == 0 || !strings.Contains(r.Stderr, c.says) {
				t.Errorf("exit code %d, want another, and words with %q: %s", r.Code, c.says, r.Stderr)
			}
		})
	}
}

// TestRefusedByTheServer are the wrong manifests.
func TestRefusedByTheServer(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	job := func(spec string) string {
		return "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: bad}\nspec: {" + spec + "}\n"
	}
	for _, c := range []struct{ name, manifest, says string }{
		{"negative replicas", job(`roles: [{name: worker, replicas: -2, command: ["true"]}]`), "greater than or equal to 1"},
		{"huge replicas", job(`roles: [{name: worker, replicas: 2000000, command: ["true"]}]`), "less than or equal to 1000"},
		{"unknown framework", job(`framework: Caffe, roles: [{name: worker, command: ["true"]}]`), "TensorFlow"},
		{"parameter servers without workers", job(`framework: TensorFlow, roles: [{name: ps, command: ["true"]}]`), "add a role named worker"},
		{"a word as GPU count", job(`roles: [{name: worker, gpus: two, command: ["true"]}]`), "gpus"},
		{"a fraction above one", job(`roles: [{name: worker, gpus: 1250m, command: ["true"]}]`), "whole number"},
		{"a negative GPU count", job(`roles: [{name: worker, gpus: -1, command: ["true"]}]`), "whole number"},
		{"no command", job(`roles: [{name: worker}]`), "give a command"},
		{"a branch and a version of data", job(`data: [{dataset: digits, branch: main, version: v1, mount: /data}], roles: [{name: worker, command: ["true"]}]`), "give one of branch (its last commit) and version"},
		{"a path out of a dataset", job(`data: [{dataset: digits, path: /train/../.., mount: /data}], roles: [{name: worker, command: ["true"]}]`), "path must not hold"},
		{"data twice in one place", job(`data: [{dataset: digits, mount: /data}, {dataset: words, mount: /data}], roles: [{name: worker, command: ["true"]}]`), "Duplicate value"},
		{"a Python beside an image", job(`environment: {image: x, python: "3.11"}, roles: [{name: worker, command: ["true"]}]`), "an image has the Python that it has"},
		{"an environment and requirements", job(`environment: {path: /venv, requirements: six}, roles: [{name: worker, command: ["true"]}]`), "path is an environment as it is"},
		{"an environment and an image", job(`environment: {path: /venv, image: x}, roles: [{name: worker, command: ["true"]}]`), "path is an environment as it is"},
		{"unequal GPU request and limit", `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: muster.dev/host, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}}]}}`, "must be equal"},
		{"a name that is too long", strings.ReplaceAll(job(`roles: [{name: worker, command: ["true"]}]`), "bad", strings.Repeat("x", 60)), "48 characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := m.Kubectl(deadline(t, 30*time.Second), c.manifest, "apply", "-n", ns, "-f", "-")
			if r.Code == 0 || !strings.Contains(r.Stderr, c.says) {
				t.Errorf("exit code %d, want another, and words with %q: %s", r.Code, c.says, r.Stderr)
			}
		})
	}
}

// TestFailsWithWords are jobs that are accepted, cannot start, and say why,
// before they hold anything.
func TestFailsWithWords(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok.py":
			_, _ = fmt.Fprintln(w, "print('from a URL')")
		case "/huge.py":
			w.Header().Set("Content-Length", "10737418240")
			_, _ = w.Write(make([]byte, 4096))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		name, spec, says string
		phase            v1alpha1.JobPhase
	}{
		{"url-404", "code: {url: '" + server.URL + "/none.py'}, roles: [{name: worker, script: none.py}]", "404", v1alpha1.JobFailed},
		{"url-huge", "code: {url: '" + server.URL + "/huge.py'}, roles: [{name: worker, script: huge.py}]", "10", v1alpha1.JobFailed},
		{"url-down", "code: {url: 'http://127.0.0.1:1/a.py'}, roles: [{name: worker, script: a.py}]", "refused", v1alpha1.JobFailed},
		{"url-ok", "code: {url: '" + server.URL + "/ok.py'}, roles: [{name: worker, script: ok.py}]", "", v1alpha1.JobSucceeded},
		{"no-such-python", "environment: {requirements: six, python: '3.77'}, roles: [{name: worker, command: ['true']}]", "3.77", v1alpha1.JobFailed},
		{"unresolvable", "environment: {requirements: 'six==99.99'}, roles: [{name: worker, command: ['true']}]", "six==99.99", v1alpha1.JobFailed},
		{"no-such-venv", "environment: {path: /nowhere/venv}, roles: [{name: worker, command: ['true']}]", "/nowhere/venv", v1alpha1.JobFailed},
		{"unknown-image", "environment: {image: 'tensorflow/tensorflow:2'}, roles: [{name: worker, command: ['true']}]", "images", v1alpha1.JobFailed},
		{"no-such-command", "backoffLimit: 0, roles: [{name: worker, command: [no-such-program]}]", "no-such-program", v1alpha1.JobFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			manifest := "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: " + c.name + "}\nspec: {" + c.spec + "}\n"
			expect(t, m.Kubectl(deadline(t, 30*time.Second), manifest, "apply", "-n", ns, "-f", "-"), 0)
			j := waitPhase(t, m, ns, c.name, c.phase)
			if !strings.Contains(j.Status.Message, c.says) {
				t.Errorf("the message %q does not say %q", j.Status.Message, c.says)
			}
		})
	}
}

func TestANameThatExists(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	dir := folder(t, map[string]string{"a": ""})
	ctx := deadline(t, 60*time.Second)
	expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "twice", "--", "true"), 0)
	r := m.RunIn(ctx, dir, "-n", ns, "run", "--name", "twice", "--", "true")
	expect(t, r, 1, "twice", "--name")
}

func TestASecondMusterOnTheSameFolder(t *testing.T) {
	m := isolated(t)
	r := m.Run(deadline(t, 30*time.Second), "up")
	if r.Code == 0 || !strings.Contains(r.Stderr, m.Home) {
		t.Errorf("exit code %d, want another, and words that name the folder: %s", r.Code, r.Stderr)
	}
}

func TestNoMusterHere(t *testing.T) {
	m := &harness.Muster{Home: t.TempDir()}
	expect(t, m.Run(deadline(t, 30*time.Second), "get", "tj"), 3, "muster up")
	expect(t, m.Run(deadline(t, 30*time.Second), "status"), 3, "not running")
	expect(t, m.Run(deadline(t, 30*time.Second), "down"), 0, "none is running")
}
