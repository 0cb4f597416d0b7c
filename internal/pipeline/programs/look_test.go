package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLook: a program that looks for another process says what this process would have seen, however much it
// is asked for.
func TestLook(t *testing.T) {
	folder := t.TempDir()
	script := write(t, folder, "ä.py", "1", 0o600)
	for i := range 300 {
		if err := os.MkdirAll(filepath.Join(folder, "lib", "python3.13", "site-packages", fmt.Sprintf("p%03d-1.0.dist-info", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tool := write(t, folder, "bin/a-tool", "1", 0o755)
	for name, c := range map[string]struct {
		request         Request
		files, packages int
	}{
		"a command":        {Request{Commands: []Command{{Words: []string{"python3", script}}}}, 1, 0},
		"an environment":   {Request{Commands: []Command{{Words: []string{"a-tool"}}}, Environment: folder}, 1, 0},
		"a long command":   {Request{Commands: []Command{{Words: []string{"a-tool"}, Lines: []string{strings.Repeat("é", 300_000), tool}}}}, 1, 0},
		"packages":         {Request{Environment: folder, Packages: true}, 0, 300},
		"no such folder":   {Request{Environment: filepath.Join(folder, "none"), Packages: true}, 0, 0},
		"nothing in there": {Request{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := Look(t.Context(), c.request)
			if err != nil || len(want.Files) != c.files || len(want.Packages) != c.packages {
				t.Fatalf("%d files, %d packages, error %v", len(want.Files), len(want.Packages), err)
			}
			words, err := c.request.Words()
			if err != nil || words[0] != Verb {
				t.Fatal(words, err)
			}
			for _, word := range words {
				if len(word) > 128<<10-1 {
					t.Errorf("an argument has %d bytes", len(word))
				}
			}
			var said strings.Builder
			if code := Main(t.Context(), words[1:], &said); code != 0 {
				t.Fatalf("it ends with %d: %s", code, said.String())
			}
			got, err := Read(said.String())
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

// TestRead: an answer that is not whole, or not one, is an error.
func TestRead(t *testing.T) {
	for name, said := range map[string]string{
		"nothing": "", "half": `{"package":"a-1"}` + "\n", "an error": `{"error":"reading x"}` + "\n" + `{"end":true}`, "no answer": "usage: look\n",
	} {
		if a, err := Read(said); err == nil || len(a.Packages)+len(a.Files) > 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	var said strings.Builder
	if code := Main(t.Context(), []string{"{"}, &said); code == 0 || !strings.Contains(said.String(), "error") {
		t.Errorf("half a request: %d %q", code, said.String())
	}
}
