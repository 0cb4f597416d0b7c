package evaluation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes this test's program the process that evaluates.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == Verb {
		if err := Answer(os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestEvaluate(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"outside.libsonnet": `{secret: 1}`, "in/lib/part.libsonnet": `{repo: (import "more.libsonnet").repo}`, "in/lib/more.libsonnet": `{repo: "r"}`,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside.libsonnet", filepath.Join(folder, "in", "link.libsonnet")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		args []string
		want string // or the error
	}{
		"no arguments":             {`{a: 1 + 1}`, nil, `{ "a": 2 }`},
		"an argument":              {`function(tag) {name: "x-" + tag}`, []string{"tag=a=b"}, `{ "name": "x-a=b" }`},
		"none that it needs":       {`function(tag) {}`, nil, "Missing argument: tag"},
		"one that it does not":     {`function(tag) {}`, []string{"tag=1", "tug=2"}, "tug"},
		"an argument without =":    {`{}`, []string{"tag"}, "--arg tag: give name=value"},
		"an argument twice":        {`{}`, []string{"tag=1", "tag=2"}, "--arg tag is given twice"},
		"an import":                {`{a: (import "lib/part.libsonnet").repo}`, nil, `{ "a": "r" }`},
		"an import from elsewhere": {`import "../outside.libsonnet"`, nil, "only files in it are imported"},
		"an absolute import":       {`importstr "/etc/passwd"`, nil, "only files in it are imported"},
		"a link that leads out":    {`import "link.libsonnet"`, nil, "link.libsonnet"},
		"a fault":                  {`{a: error "no such thing"}`, nil, "no such thing"},
		"no Jsonnet":               {`{a: `, nil, "x.jsonnet:1:"},
		"too much output":          {`local twice(s, n) = if n == 0 then s else twice(s + s, n - 1); twice("x", 23)`, nil, "its result is larger than 4 MiB"},
		"too much memory":          {`std.length(std.makeArray(200000000, function(i) i))`, nil, "takes more than 512 MiB of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(folder, "in", "x.jsonnet")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := Evaluate(t.Context(), file, c.args)
			got := strings.Join(strings.Fields(string(out)), " ")
			if strings.HasPrefix(c.want, "{ ") {
				if err != nil || got != c.want {
					t.Errorf("%s, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.100s, %v, want %q", got, err, c.want)
			}
		})
	}
}
