package revision

import (
	"os"
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
