package tutorial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const sample = "# A page\n" +
	"\n" +
	"Write the file `greet/hello.sh`:\n" +
	"\n" +
	"```sh\n" +
	"echo \"hello $1\"\n" +
	"```\n" +
	"\n" +
	"```console\n" +
	"$ cd greet\n" +
	"$ sh hello.sh \\\n" +
	">   you\n" +
	"hello you\n" +
	"```\n" +
	"\n" +
	"Only read:\n" +
	"\n" +
	"```\n" +
	"$ rm -r /\n" +
	"```\n"

func TestParse(t *testing.T) {
	steps, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Step{
		{Line: 5, File: "greet/hello.sh", Content: "echo \"hello $1\"\n"},
		{Line: 10, Command: "cd greet"},
		{Line: 11, Command: "sh hello.sh \\\n  you", Output: []string{"hello you"}},
	}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, page := range map[string]string{
		"a block that is not closed":      "```console\n$ true\n",
		"output before the first command": "```console\nhello\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			if steps, err := Parse(page); err == nil {
				t.Errorf("no error, but %v", steps)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	const output = "NAME   PHASE\na      Running\nb      Waiting\n"
	for name, c := range map[string]struct {
		want string
		// err is a part of the error; empty if there is none.
		err string
	}{
		"the same":                   {want: "NAME PHASE\na Running\nb Waiting"},
		"anything within a line":     {want: "NAME ...\na Run...\n... Waiting"},
		"any lines":                  {want: "NAME PHASE\n..."},
		"any lines in between":       {want: "NAME PHASE\n...\nb Waiting"},
		"any lines that are none":    {want: "NAME PHASE\n...\na Running\n...\nb Waiting\n..."},
		"nothing expected":           {want: "", err: "expected line \"\""},
		"another word":               {want: "NAME PHASE\na Waiting\nb Waiting", err: `expected line "a Waiting"`},
		"another order":              {want: "NAME PHASE\nb Waiting\na Running", err: `expected line "b Waiting"`},
		"a line that is not there":   {want: "NAME PHASE\n...\nc Running", err: `expected line "c Running"`},
		"a line more than expected":  {want: "NAME PHASE\na Running", err: "more output"},
		"a line fewer than expected": {want: "NAME PHASE\na Running\nb Waiting\nc Waiting", err: `expected line "c Waiting"`},
		"no pattern but ...":         {want: "NAME PHASE\na R.*\nb Waiting", err: `expected line "a R.*"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Compare(strings.Split(c.want, "\n"), output)
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v, want an error with %s", err, c.err)
			}
		})
	}
	if err := Compare(nil, output); err == nil || !strings.Contains(err.Error(), "more output") {
		t.Errorf("output of a command that is to print nothing: %v", err)
	}
	if err := Compare(nil, ""); err != nil {
		t.Errorf("no output of a command that is to print nothing: %v", err)
	}
}

func TestShell(t *testing.T) {
	dir := t.TempDir()
	shell, err := Start(t.Context(), dir, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := shell.Close(); err != nil {
			t.Error(err)
		}
	}()
	steps, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := shell.Do(step); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		step Step
		err  string
	}{
		"the folder is kept":          {step: Step{Command: "pwd", Output: []string{filepath.Join(dir, "greet")}}},
		"a file lies in that folder":  {step: Step{File: "deep/a", Content: "x\n"}},
		"no newline at the end":       {step: Step{Command: "printf x", Output: []string{"x"}}},
		"errors are output":           {step: Step{Command: "echo x >&2", Output: []string{"x"}}},
		"a comment does not end it":   {step: Step{Command: "echo x # why", Output: []string{"x"}}},
		"no input is left to read":    {step: Step{Command: "cat"}},
		"a command that fails":        {step: Step{Command: "false"}, err: "exit code 1"},
		"a command that prints else":  {step: Step{Command: "echo x", Output: []string{"y"}}, err: `expected line "y"`},
		"a command that is not there": {step: Step{Command: "no-such-command-here", Output: []string{"..."}}, err: "exit code 127"},
	} {
		t.Run(name, func(t *testing.T) {
			err := shell.Do(c.step)
			switch {
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v, want an error with %s", err, c.err)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(dir, "greet", "deep", "a")); err != nil || string(text) != "x\n" {
		t.Errorf("the file of a step: %q, %v", text, err)
	}
}

// TestPassingLines leaves them out, and no other.
func TestPassingLines(t *testing.T) {
	shell, err := Start(t.Context(), t.TempDir(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shell.Close() }()
	step := Step{Command: "echo 1 of 2; echo done", Output: []string{"done"}}
	if err := shell.Do(step); err == nil {
		t.Error("no error, though no line passes")
	}
	shell.Passing = func(line string) bool { return line == "1 of 2" }
	if err := shell.Do(step); err != nil {
		t.Error(err)
	}
	if err := shell.Do(Step{Command: "echo 2 of 2", Output: nil}); err == nil {
		t.Error("no error, though another line is there")
	}
}

// TestLooksAgain repeats a command that only looks, and no other.
func TestLooksAgain(t *testing.T) {
	shell, err := Start(t.Context(), t.TempDir(), os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shell.Close() }()
	shell.Patience = time.Minute
	count := Step{Command: "echo >> times; wc -l < times", Output: []string{"3"}}
	if err := shell.Do(count); err == nil {
		t.Error("no error, though the command has run one time")
	}
	shell.Looks = func(command string) bool { return command == count.Command }
	if err := shell.Do(count); err != nil {
		t.Error(err)
	}
	shell.Patience = 0
	if err := shell.Do(count); err == nil || !strings.Contains(err.Error(), `expected line "3"`) {
		t.Errorf("got %v, want the last output's fault", err)
	}
}
