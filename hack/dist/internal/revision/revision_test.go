package revision

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const hash = "0123456789abcdef0123456789abcdef01234567"

func TestName(t *testing.T) {
	for name, c := range map[string]struct {
		history          history
		next             string
		semantic, python string
		wrong            string
	}{
		"release":            {history{tag: "v0.1.0", commit: hash}, "0.1.0", "0.1.0", "0.1.0", ""},
		"before the first":   {history{since: 12, commit: hash}, "0.1.0", "0.1.0-dev.12.g0123456789ab", "0.1.0.dev12+g0123456789ab", ""},
		"after a release":    {history{tag: "v0.1.0", since: 3, commit: hash}, "0.1.0", "0.1.1-dev.3.g0123456789ab", "0.1.1.dev3+g0123456789ab", ""},
		"the next is larger": {history{tag: "v0.1.0", since: 3, commit: hash}, "0.2.0", "0.2.0-dev.3.g0123456789ab", "0.2.0.dev3+g0123456789ab", ""},
		"changed files":      {history{tag: "v0.1.0", commit: hash, changed: true}, "0.1.0", "0.1.1-dev.0.g0123456789ab.changed", "0.1.1.dev0+g0123456789ab.changed", ""},
		"the wrong tag":      {history{tag: "v0.2.0", commit: hash}, "0.1.0", "", "", "pyproject.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nameOf(c.history, c.next)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("error %v, want one with %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Semantic != c.semantic || got.Python != c.python || got.Commit != hash {
				t.Errorf("got %+v, want %s and %s", got, c.semantic, c.python)
			}
		})
	}
}

func TestNextRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pyproject.toml")
	for text, want := range map[string]string{
		"[project]\nversion = \"1.2.3\"\n": "1.2.3",
		"[project]\nversion = \"1.2\"\n":   "",
		"[project]\n":                      "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := nextRelease(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestOfThisCheckout needs Git's history, as every build of a release does.
func TestOfThisCheckout(t *testing.T) {
	r, err := Of(t.Context(), "../../../..")
	if err != nil {
		t.Fatal(err)
	}
	if r.Time.IsZero() || len(r.Commit) != 40 || r.Program() != "v"+r.Semantic {
		t.Errorf("got %+v", r)
	}
}

// TestLook asks Git about a checkout: a file that is not in the commit would be in a release.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want history) {
		t.Helper()
		got, _, err := look(t.Context(), dir)
		want.commit = got.commit
		if err != nil || got != want || len(got.commit) != 40 {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	run("init", "--quiet")
	put("a", "one")
	put(".gitignore", "/dist/\n")
	run("add", ".")
	run("commit", "--quiet", "-m", "one")
	want("one commit", history{since: 1})
	run("tag", "-a", "v0.1.0", "-m", "v0.1.0")
	want("tagged", history{tag: "v0.1.0"})
	if err := os.Mkdir(filepath.Join(dir, "dist"), 0o755); err != nil {
		t.Fatal(err)
	}
	put("dist/ignored", "")
	want("with files that Git ignores", history{tag: "v0.1.0"})
	put("b", "not in the commit")
	want("with a file that is not in the commit", history{tag: "v0.1.0", changed: true})
	run("add", "b")
	run("commit", "--quiet", "-m", "two")
	want("a commit later", history{tag: "v0.1.0", since: 1})
	put("a", "two")
	want("with a changed file", history{tag: "v0.1.0", since: 1, changed: true})
}
