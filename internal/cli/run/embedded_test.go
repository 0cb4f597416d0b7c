//go:build embedded

package run_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestPasswordsInObjects: the API server takes no requirements with a password in an
// address, of a job, a pipeline or a stage.
func TestPasswordsInObjects(t *testing.T) {
	server := rehearsal.Start(t)
	worker := []any{map[string]any{"name": "worker", "command": []any{"true"}}}
	objects := func(env map[string]any) map[string]*unstructured.Unstructured {
		stage := map[string]any{"name": "a", "command": []any{"true"}, "input": map[string]any{"dataset": "digits", "glob": "/*"}, "output": map[string]any{"dataset": "counts"}}
		own := map[string]any{"name": "a", "command": []any{"true"}, "input": map[string]any{"dataset": "digits", "glob": "/*"}, "output": map[string]any{"dataset": "counts"}, "environment": env}
		out := map[string]*unstructured.Unstructured{}
		for name, c := range map[string]struct {
			kind string
			spec map[string]any
		}{
			"a job":      {"TrainingJob", map[string]any{"roles": worker, "environment": env}},
			"a pipeline": {"Pipeline", map[string]any{"stages": []any{stage}, "environment": env}},
			"a stage":    {"Pipeline", map[string]any{"stages": []any{own}}},
		} {
			out[name] = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "muster.dev/v1alpha1", "kind": c.kind, "metadata": map[string]any{"namespace": "default", "name": "a"}, "spec": c.spec,
			}}
		}
		return out
	}
	const secret = "name a Secret with it in indexSecret"
	for text, says := range map[string]string{
		"numpy\n--extra-index-url https://ada:s3cr3tw0rd@x.test/simple\n": secret,
		"-i=https://s3cr3tw0rd@x.test\nnumpy\n":                           secret,
		"pkg @ git+https://x:s3cr3tw0rd@x.test/pkg.git@v1\n":              secret,
		"# https://ada:s3cr3tw0rd@x.test/simple\nnumpy\n":                 secret,
		"pkg @ git+https://x.test/pkg.git@v1\nnumpy # me@x.test\n":        "",
		"-i https://x.test/simple\npkg@https://x.test/a@b/pkg.whl\n":      "",
	} {
		for name, o := range objects(map[string]any{"requirements": text}) {
			err := server.Client.Create(t.Context(), o, client.DryRunAll)
			if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cr3tw0rd")) {
				t.Errorf("%q in %s: %v, want %q", text, name, err, says)
			}
		}
	}
	for url, says := range map[string]string{"https://ada:s3cr3tw0rd@x.test/train.py": "url has a user or password", "https://x.test/a@b/train.py": ""} {
		o := objects(map[string]any{"requirements": "numpy"})["a job"]
		o.Object["spec"].(map[string]any)["code"] = map[string]any{"url": url}
		err := server.Client.Create(t.Context(), o, client.DryRunAll)
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cr3tw0rd")) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
	for says, env := range map[string]map[string]any{
		"":                                      {"requirements": "numpy", "indexSecret": "index"},
		"is read while requirements are":        {"image": "a", "indexSecret": "index"},
		"spec.environment.indexSecret in body ": {"requirements": "numpy", "indexSecret": "../index"},
	} {
		err := server.Client.Create(t.Context(), objects(env)["a job"], client.DryRunAll)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", env, err, says)
		}
	}
}
