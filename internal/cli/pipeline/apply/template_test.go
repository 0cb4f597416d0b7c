package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/pipeline/evaluation"
)

// TestMain makes this test's program the process that evaluates templates.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == evaluation.Verb {
		if err := evaluation.Answer(os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestTemplates: a Jsonnet file evaluates to Pachyderm's specifications, or to a pipeline.
func TestTemplates(t *testing.T) {
	o, dir := reader(t, map[string]string{
		"x.jsonnet":   `function(tag) { pipeline: {name: "x-" + tag}, transform: {cmd: ["true"]}, input: {pfs: {repo: "rep", glob: "/*"}} }`,
		"all.tmpl":    `function(tag) [(import "x.jsonnet")(tag + i) for i in ["1", "2"]]`,
		"own.jsonnet": `{metadata: {name: "own"}, spec: {stages: [{name: "s", input: {dataset: "d"}, script: "x.jsonnet"}]}}`,
	})
	names := func(file string, args ...string) string {
		t.Helper()
		o.args = args
		found, err := o.read(t.Context(), filepath.Join(dir, file))
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, p := range found {
			out = append(out, p.GetName())
		}
		return strings.Join(out, " ")
	}
	o.templates = []string{filepath.Join(dir, "all.tmpl")}
	for _, c := range []struct {
		file string
		args []string
		want string
	}{
		{"x.jsonnet", []string{"tag=one"}, "x-one"}, {"all.tmpl", []string{"tag=t"}, "x-t1 x-t2"}, {"own.jsonnet", nil, "own"}, {"x.jsonnet", nil, "Missing argument: tag"},
	} {
		if got := names(c.file, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %s", c.file, c.args, got)
		}
	}
	o.files, o.templates, o.args = []string{"p.yaml"}, nil, []string{"tag=1"}
	if err := o.checkArgs(); err == nil || !strings.Contains(err.Error(), "arguments are for a Jsonnet file") {
		t.Errorf("arguments for nothing: %v", err)
	}
}
