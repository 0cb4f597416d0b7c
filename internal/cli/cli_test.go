package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"muster": func() { os.Exit(Main(os.Args[1:], terminal.Standard())) },
	})
}

// TestScripts runs the command line where no server is needed. An exit code
// other than 0 is checked by `status CODE muster ...`.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("MUSTER_HOME", "")
			env.Setenv("KUBECONFIG", "")
			env.Setenv("MUSTER_SOCKET", env.WorkDir+"/none.sock")
			env.Setenv("USER", "tester")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": endsWith, "prints": prints},
	})
}

// status CODE PROGRAM ARGS...: the program must end with the code.
func endsWith(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status CODE PROGRAM [ARGS...]")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%v ended with %s, want %s", args[1:], code, args[0])
	}
}

// changing is what differs from one machine to the next.
var changing = []struct {
	pattern *regexp.Regexp
	masked  string
}{
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "SNAPSHOT"},
	{regexp.MustCompile(`(muster.dev/submitter): .*`), "$1: SUBMITTER"},
}

// prints FILE: the last command's standard output is the file's text.
func prints(ts *testscript.TestScript, _ bool, args []string) {
	got := ts.ReadFile("stdout")
	for _, one := range changing {
		got = one.pattern.ReplaceAllString(got, one.masked)
	}
	if diff := cmp.Diff(ts.ReadFile(args[0]), got); diff != "" {
		ts.Fatalf("standard output (-want +got):\n%s", diff)
	}
}

func TestDocumentedExitCodes(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " ")
	for _, row := range exit.Table() {
		if want := row.Code + " " + row.Meaning; !strings.Contains(doc, want) {
			t.Errorf("doc.go does not say %q", want)
		}
	}
}
