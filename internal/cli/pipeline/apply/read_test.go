package apply

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// reader is the command with a home of its own, and a folder with files.
func reader(t *testing.T, files map[string]string) (*options, string) {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := connection.New(terminal.Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "test")
	f.Getenv = func(name string) string { return map[string]string{connection.EnvHome: home}[name] }
	return &options{factory: f}, dir
}

func TestCodeIsTakenAlong(t *testing.T) {
	read := func(other string) (script string, code any) {
		t.Helper()
		o, dir := reader(t, map[string]string{"p.yaml": `
metadata: {name: p}
spec: {stages: [{name: s, input: {dataset: things}, script: parts/a.py}]}
`, "parts/a.py": "print(1)", "parts/b.py": other})
		found, err := o.read(t.Context(), filepath.Join(dir, "p.yaml"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		stage := found[0].Object["spec"].(map[string]any)["stages"].([]any)[0].(map[string]any)
		return stage["script"].(string), stage["code"].(map[string]any)["snapshot"]
	}
	script, first := read("one")
	_, second := read("another")
	if script != "a.py" || first == nil || first != second {
		t.Errorf("script %s, code %v and %v: a script's code is that file alone", script, first, second)
	}
}

// TestSparkIsTakenAlong: a Spark script without code is its code, and a number of
// executors is from how many to how many.
func TestSparkIsTakenAlong(t *testing.T) {
	o, dir := reader(t, map[string]string{"p.yaml": `
metadata: {name: p}
spec: {stages: [{name: s, input: {dataset: things}, spark: {script: parts/a.py, executors: 2}}]}
`, "parts/a.py": "print(1)"})
	found, err := o.read(t.Context(), filepath.Join(dir, "p.yaml"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	typed := &v1alpha1.Pipeline{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, typed); err != nil {
		t.Fatal(err)
	}
	stage := typed.Spec.Stages[0]
	if stage.Code == nil || stage.Code.Snapshot == "" || stage.Spark.Script != "a.py" || *stage.Spark.Executors.Min != 2 || stage.Spark.Executors.Max != 2 {
		t.Errorf("code %+v, spark %+v with %+v", stage.Code, stage.Spark, stage.Spark.Executors)
	}
}

func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"another kind":  {"kind: Pod\napiVersion: v1", "here only pipelines are applied"},
		"no name":       {"spec: {stages: []}", "metadata.name"},
		"no spec":       {"metadata: {name: p}", "has no spec"},
		"a field":       {"metadata: {name: p}\nspec: {stages: [{name: s, imput: {}, command: [x]}]}", `imput`},
		"no code there": {"metadata: {name: p}\nspec: {stages: [{name: s, input: {dataset: things}, script: a.py}]}", "there is no"},
		"a circle":      {"metadata: {name: p}\nspec: {stages: [{name: a, input: {stage: b}, command: [x]}, {name: b, input: {stage: a}, command: [x]}]}", "in a circle"},
		"a glob":        {"metadata: {name: p}\nspec: {stages: [{name: a, input: {dataset: things, glob: '/['}, command: [x]}]}", "bracket is not closed"},
		"nothing":       {"# only words", "has no pipeline in it"},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir := reader(t, map[string]string{"p.yaml": c.text})
			_, err := o.read(t.Context(), filepath.Join(dir, "p.yaml"))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
