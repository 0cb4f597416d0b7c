package programs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, folder, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	folder := t.TempDir()
	script := write(t, folder, "app/train.py", "1", 0o600)
	tool := write(t, folder, "bin/tool", "1", 0o755)
	python := write(t, folder, "bin/python3.11", "1", 0o755)
	text := write(t, folder, "app/notes.txt", "1", 0o600)
	mounted := write(t, folder, "pfs/in/x.py", "1", 0o600)
	if err := os.Symlink("/bin/sh", filepath.Join(folder, "bin/linked")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		words, lines []string
		want         []string
	}{
		"a script":                        {[]string{"python3", script, "--lr", "1"}, nil, []string{script}},
		"a script after options":          {[]string{"python3.11", "-u", script}, nil, []string{script}},
		"a file that an interpreter runs": {[]string{"python3", text}, nil, []string{text}},
		"a file that is an argument":      {[]string{"tool", text, script}, nil, []string{script, tool}},
		"a program by its name":           {[]string{"tool"}, nil, []string{tool}},
		"a program by its path":           {[]string{tool}, nil, []string{tool}},
		"an interpreter":                  {[]string{python}, nil, nil},
		"the machine's own":               {[]string{"/bin/cat", filepath.Join(folder, "bin/linked")}, nil, nil},
		"a line of a shell":               {[]string{"sh", "-c", "set -e; python3 '" + script + "' >" + text + " && " + tool}, nil, []string{script, tool}},
		"standard input":                  {[]string{"/bin/bash"}, []string{"cd " + folder, "OUT=" + text + " " + tool}, []string{tool}},
		"relative to a folder":            {[]string{"/bin/sh", "-c", `cd "$1" || exit; shift; exec "$@"`, "sh", folder + "/app", "python3", "train.py"}, nil, []string{script}},
		"what is mounted":                 {[]string{"python3", mounted}, nil, nil},
		"what is not there":               {[]string{"python3", "/no/such/x.py", "-m", "module"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Find(t.Context(), Command{Words: c.words, Lines: c.lines, Path: []string{filepath.Join(folder, "bin"), "/usr/bin"}, Mount: filepath.Join(folder, "pfs")})
			var got []string
			for _, f := range found {
				got = append(got, f.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

// TestDigest: contents count, and nothing else of a file.
func TestDigest(t *testing.T) {
	folder := t.TempDir()
	path := write(t, folder, "x.py", "1", 0o600)
	digest := func() string {
		t.Helper()
		found, err := Find(t.Context(), Command{Words: []string{"python3", path}})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0].Digest
	}
	first := digest()
	write(t, folder, "x.py", "2", 0o600)
	if second := digest(); second == first {
		t.Error("another content is the same")
	}
	write(t, folder, "x.py", "1", 0o600)
	if third := digest(); third != first || strings.Trim(third, "0123456789abcdef") != "" {
		t.Errorf("the same content is %s, was %s", third, first)
	}
}
