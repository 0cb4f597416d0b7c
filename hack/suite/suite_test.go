package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/hack/suite/input"
	"github.com/muster-dev/muster/hack/suite/pass"
)

// repository is a small one with a package of tests, as execute expects it.
type repository struct {
	t             *testing.T
	cache, kernel string
}

const passing = `package p

import (
	"os"
	"testing"
)

func TestOne(t *testing.T) {}

func TestTwo(t *testing.T) {
	t.Run("reads", func(t *testing.T) {
		if text, err := os.ReadFile("../examples/list.txt"); err != nil || string(text) == "bad" {
			t.Fatal(err, string(text))
		}
	})
}

func TestThree(t *testing.T) {
	if os.Getenv("MUSTER_SKIP") != "" {
		t.Skip("the variable is set")
	}
}
`

func newRepository(t *testing.T) *repository {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, variable := range []string{"CI", "CI_FULL", "MUSTER_TEST_MTIMES", "MUSTER_TEST_REPORT"} {
		t.Setenv(variable, "") // of the run that this test is part of
	}
	t.Setenv("GOFLAGS", "-trimpath")
	r := &repository{t: t, cache: filepath.Join(t.TempDir(), "cache")}
	for path, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.26\n", "p/p_test.go": passing, "bin/muster": "program 1", ".gitignore": "/bin/\n",
		"hack/x": "", "charts/x": "", "examples/list.txt": "good", "python/m.py": "", "docs/a.md": "",
	} {
		r.write(path, text)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return r
}

func (r *repository) write(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// suite runs the command and returns its output and error.
func (r *repository) suite(args ...string) (string, error) {
	r.t.Helper()
	o, err := parse(append([]string{"-cache", r.cache}, args...), io.Discard)
	if err != nil {
		r.t.Fatal(err)
	}
	var out bytes.Buffer
	o.out = &out
	// The machine's packages may change while other tests run.
	o.machine = func(context.Context, ...string) (map[string]string, error) {
		return map[string]string{"kernel": r.kernel}, nil
	}
	err = execute(r.t.Context(), o)
	return out.String(), err
}

// heavy runs a heavy suite in two shards; it must pass, and say so with these words.
func (r *repository) heavy(says string) {
	r.t.Helper()
	out, err := r.suite("-heavy", "-shards", "2", "-input", "python", "some", "./p")
	if err != nil || !strings.Contains(out, says) {
		r.t.Errorf("%v, want %q:\n%s", err, says, out)
	}
}

// TestAPassIsReported: a heavy suite runs again if anything changed that its outcome may
// depend on, and else reports its pass.
func TestAPassIsReported(t *testing.T) {
	r := newRepository(t)
	const ran, before = "test-some: 4 tests in", "not run: passed 20"
	r.heavy(ran)
	r.heavy(before)
	for _, path := range []string{"docs/a.md", "hack/dist/main.go", "hack/suite/suite_test.go"} {
		r.write(path, "package main\n")
		r.heavy(before)
	}
	for path, input := range map[string]string{
		"examples/list.txt": "folder examples", "bin/muster": "bin/muster", "python/m.py": "input python", "hack/new": "folder hack",
		"p/p_test.go": "tests of example.test/m/p",
	} {
		text, _ := os.ReadFile(path)
		r.write(path, string(text)+"\n")
		if path == "p/p_test.go" {
			r.write(path, strings.ReplaceAll(string(text), "TestThree", "TestDrei"))
		}
		r.heavy("since its last pass changed: " + input)
		r.heavy(before)
	}
	r.kernel = "another"
	r.heavy("since its last pass changed: kernel")
	if out, err := r.suite("-heavy", "-fresh", "-shards", "2", "-input", "python", "some", "./p"); err != nil || !strings.Contains(out, ran) {
		t.Errorf("with -fresh: %v\n%s", err, out)
	}
}

// TestNotUsed: each file of the list exists, and nothing that tests start names it outside of
// comments and its own kind.
func TestNotUsed(t *testing.T) {
	t.Chdir("../..")
	tracked, err := input.Tracked(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	// Git reads them, not this process.
	if err := input.Observe(".", input.Below(tracked, "test", "internal", "cmd", "python", "examples", "charts", "hack")); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"grep", "-n", "-I", "-E", strings.Join(notUsed, "|"), "--", "test", "internal", "cmd", "python", "examples", "charts", "hack",
		":!*.md", ":!test/dist"}, except(notUsed)...)
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: no line
		t.Fatalf("git grep: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		_, text, _ := strings.Cut(line, ":")
		_, text, _ = strings.Cut(text, ":")
		if text = strings.TrimSpace(text); !strings.HasPrefix(text, "//") && !strings.HasPrefix(text, "#") {
			t.Errorf("it is used: %s", line)
		}
	}
	for _, path := range notUsed {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// except are arguments of git that leave these paths out, the list itself and tests of hack.
func except(paths []string) []string {
	args := []string{":!hack/suite/heavy.go", ":!hack/**_test.go", ":!hack/*_test.go"}
	for _, path := range paths {
		args = append(args, ":!"+path)
	}
	return args
}

// TestAFailureIsNone: what failed runs again, and what passed after it with the same inputs,
// too.
func TestAFailureIsNone(t *testing.T) {
	r := newRepository(t)
	r.write("examples/list.txt", "bad")
	for range 2 {
		if out, err := r.suite("-heavy", "some", "./p"); err == nil || !strings.Contains(out, `"Test":"TestTwo"`) {
			t.Fatalf("a failing test: %v\n%s", err, out)
		}
	}
	r.write("examples/list.txt", "good")
	t.Setenv("MUSTER_SKIP", "1")
	for range 2 {
		if out, err := r.suite("-heavy", "some", "./p"); err != nil || !strings.Contains(out, "skipped TestThree: p_test.go:20: the variable is set") {
			t.Fatalf("a skipped test: %v\n%s", err, out)
		}
	}
	t.Setenv("CI", "true")
	if out, err := r.suite("-heavy", "some", "./p"); err == nil || !strings.Contains(err.Error(), "a skip is a failure") {
		t.Fatalf("a skipped test in CI: %v\n%s", err, out)
	}
}

// TestACacheThatCannotBeWritten: what passed has passed, and why it is not kept is told.
func TestACacheThatCannotBeWritten(t *testing.T) {
	const ran = "test-some: 4 tests in"
	for name, c := range map[string]struct {
		file, says string
	}{
		"no folder of passes": {"passes", "no passes are remembered"},
		"no folder of events": {"events", "the events of its tests are not kept"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.write(filepath.Join(r.cache, c.file), "a file in its place")
			for range 2 {
				out, err := r.suite("-heavy", "some", "./p")
				first := strings.Contains(out, ran)
				if err != nil || !first && !strings.Contains(out, "not run: passed") || first && !strings.Contains(out, c.says) {
					t.Errorf("%v, want %q and %q:\n%s", err, ran, c.says, out)
				}
			}
			r.write("examples/list.txt", "bad")
			if out, err := r.suite("-heavy", "some", "./p"); !errors.Is(err, errFailed) || !strings.Contains(out, `"Test":"TestTwo"`) {
				t.Errorf("a failing test: %v\n%s", err, out)
			}
		})
	}
	t.Run("a record that cannot be written", func(t *testing.T) {
		r := newRepository(t)
		r.heavy(ran)
		r.write("examples/list.txt", "another")
		o, err := parse([]string{"-cache", r.cache, "-heavy", "some", "./p"}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		o.out = &out
		records, err := pass.Open(filepath.Join(r.cache, "passes"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(r.cache, "passes")); err != nil {
			t.Fatal(err)
		}
		o.remember(records, pass.Record{Suite: "some"})
		if !strings.Contains(out.String(), "its pass is not remembered: ") {
			t.Errorf("it says %q", out.String())
		}
	})
}

// TestLight: Go's own cache keeps the results of a light suite.
func TestLight(t *testing.T) {
	r := newRepository(t)
	report := filepath.Join(t.TempDir(), "report")
	for range 2 {
		if out, err := r.suite("-report", report, "-skip", "TestThree", "quick", "./..."); err != nil || !strings.Contains(out, "test-quick: 3 tests in") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil || strings.Count(string(text), "quick\t3\t") != 2 {
		t.Errorf("the report: %v\n%s", err, text)
	}
	if out, err := r.suite("broken", "./nowhere"); err == nil {
		t.Errorf("a package that does not exist passes:\n%s", out)
	}
	var out bytes.Buffer
	if err := printTimes(&out, r.cache); err != nil || !strings.Contains(out.String(), "TestTwo") || !strings.Contains(out.String(), "quick") {
		t.Errorf("the costliest tests: %v\n%s", err, out.String())
	}
}

// TestACrash: a process that ends without telling of its tests has not passed.
func TestACrash(t *testing.T) {
	r := newRepository(t)
	for name, main := range map[string]string{
		"exit code":           "os.Exit(3)",
		"panic":               `panic("crashed")`,
		"no test ran, code 0": "os.Exit(0)",
	} {
		r.write("p/main_test.go", "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { _ = os.Args; "+main+" }\n")
		out, err := r.suite("-heavy", "crash", "./p")
		if name == "no test ran, code 0" {
			if second, err := r.suite("-heavy", "crash", "./p"); err != nil || strings.Contains(second, "not run") {
				t.Errorf("%s: it is remembered as a pass: %v\n%s", name, err, second)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: passed\n%s", name, out)
		}
	}
}

func TestCommand(t *testing.T) {
	r := newRepository(t)
	r.write("hack/check", "#!/bin/sh\necho checked; exit $CHECK_CODE\n")
	t.Setenv("CHECK_CODE", "0")
	for _, says := range []string{"checked", "not run: passed"} {
		if out, err := r.suite("-command", "hack/check", "python"); err != nil || !strings.Contains(out, says) {
			t.Errorf("%v, want %q\n%s", err, says, out)
		}
	}
	t.Setenv("CHECK_CODE", "4")
	if _, err := r.suite("-fresh", "-command", "hack/check", "python"); err == nil {
		t.Error("a command that fails passes")
	}
}

func TestLabels(t *testing.T) {
	var out bytes.Buffer
	to := &labelled{to: &out, label: "e2e: "}
	for _, piece := range []string{"a line\n", "a li", "ne\n\n", "two\nlines\n", ""} {
		if n, err := io.WriteString(to, piece); n != len(piece) || err != nil {
			t.Errorf("writing %q: %d, %v", piece, n, err)
		}
	}
	const want = "e2e: a line\ne2e: a line\ne2e: \ne2e: two\ne2e: lines\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	t.Setenv("MUSTER_TEST_LABEL", "1")
	o, err := parse([]string{"-cache", "/c", "e2e", "./p"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if to, ok := o.out.(*labelled); !ok || to.label != "e2e: " {
		t.Errorf("output goes to %#v", o.out)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Setenv("MUSTER_TEST_CACHE", "")
	for line, says := range map[string]string{
		"e2e ./p":                        "hack/cache",
		"-cache /c e2e":                  "at least one package",
		"-cache /c ../e2e ./p":           "lower-case letters",
		"-cache /c -shards 0 e2e ./p":    "at least 1 process",
		"-cache /c -command x e2e ./p":   "give one of both",
		"-cache /c -timeout soon e2e .":  "invalid value",
		"-cache /c -nonsense e2e ./test": "not defined",
	} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("suite %s: %v, want %q", line, err, says)
		}
	}
}
