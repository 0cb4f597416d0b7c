package pachyderm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/expansion"
)

// TestTheShellAround runs what a program is wrapped in.
func TestTheShellAround(t *testing.T) {
	folder := t.TempDir()
	for name, c := range map[string]struct {
		folder string
		codes  []int64
		script string
		exit   int
		output string
	}{
		"alone":                    {"", nil, "cat; exit 3", 3, "given\n"},
		"in a folder":              {folder, nil, "pwd; cat", 0, folder + "\ngiven\n"},
		"in no folder":             {folder + "/none", nil, "echo ran", 2, ""},
		"accepted":                 {"", []int64{3, 4}, "cat; exit 4", 0, "given\n"},
		"not accepted":             {"", []int64{3, 4}, "exit 5", 5, ""},
		"well":                     {"", []int64{3}, "echo done", 0, "done\n"},
		"accepted in a folder":     {folder, []int64{3}, "pwd; exit 3", 0, folder + "\n"},
		"killed":                   {"", []int64{3}, "kill -9 $$", 137, ""},
		"a folder with a variable": {folder, []int64{3}, `echo "$0 $1"`, 0, "first second third\n"},
	} {
		t.Run(name, func(t *testing.T) {
			words := wrap([]string{"/bin/sh", "-c", c.script, "first", "second third"}, c.folder, c.codes)
			cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
			cmd.Stdin = strings.NewReader("given\n")
			var out bytes.Buffer
			cmd.Stdout = &out
			code := 0
			var ended *exec.ExitError
			if err := cmd.Run(); errors.As(err, &ended) {
				code = ended.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != c.exit {
				t.Errorf("it ended with %d, want %d", code, c.exit)
			}
			if diff := cmp.Diff(c.output, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWordsStayAsTheyAre through the expansion of variables that Muster does.
func TestWordsStayAsTheyAre(t *testing.T) {
	words := []string{"", "$", "$$", "$(HOME)", "$$(HOME)", "$HOME", "a$(date)b$", "${HOME}", "$((1+1))", os.Args[0]}
	for i, word := range escape(words) {
		got := expansion.Expand(word, func(string) (string, bool) { return "expanded", true })
		if got != words[i] {
			t.Errorf("%q becomes %q", words[i], got)
		}
	}
}
