package hack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFuzz: one target that fails makes the script fail with its input, after all others ran.
func TestFuzz(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile("fuzz")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hack/fuzz"), string(script), 0o755)
	write(t, filepath.Join(dir, "go.mod"), "module example.com/fuzzed\n\ngo 1.26\n", 0o644)
	target := func(name, body string) string {
		return "func Fuzz" + name + "(f *testing.F) {\n\tf.Add(7)\n\tf.Fuzz(func(t *testing.T, n int) {\n\t\t" + body + "\n\t})\n}\n"
	}
	const head = "package p\n\nimport \"testing\"\n\n"
	write(t, filepath.Join(dir, "a/a_test.go"), head+target("Bad", "if n != 7 {\n\t\t\tt.Fatal(\"not seven\")\n\t\t}"), 0o644)
	write(t, filepath.Join(dir, "b/b_test.go"), head+target("Good", "_ = n")+target("Better", "_ = n"), 0o644)
	write(t, filepath.Join(dir, "c/c_test.go"), "//go:build never\n\n"+head+target("Hidden", "_ = n"), 0o644)
	if _, said, err := run(t, dir, nil, "git", "init", "-q"); err != nil {
		t.Fatalf("git init: %v\n%s", err, said)
	}
	environ := []string{"FUZZTIME=200x", "GOWORK=off"}
	out, said, err := run(t, dir, environ, "hack/fuzz")
	for _, want := range []string{"FAILED  ./a FuzzBad", "not seven", "./a/testdata/fuzz/FuzzBad/", "go test fuzz v1", "ok      ./b FuzzBetter: execs: ", "ok      ./b FuzzGood: execs: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, want := range []string{"fuzz: failed: ./a FuzzBad", "fuzz: ./c FuzzHidden: go test does not list it"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if err == nil {
		t.Error("the script succeeds with a target that fails")
	}
	if out, said, err := run(t, dir, environ, "hack/fuzz", "b"); err != nil || strings.Contains(out, "./a") || strings.Count(out, "ok ") != 2 {
		t.Errorf("one folder: %v\n%s%s", err, out, said)
	}
}
