package address

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/cli/exit"
)

func TestParse(t *testing.T) {
	commit := strings.Repeat("0a", 32)
	for _, c := range []struct {
		name, text string
		want       Address
		shown      string
	}{
		{"a dataset", "digits", Address{Dataset: "digits"}, "digits@main"},
		{"a branch", "digits@next", Address{Dataset: "digits", Version: "next"}, "digits@next"},
		{"a commit", "digits@" + commit, Address{Dataset: "digits", Version: commit}, "digits@" + commit},
		{"one before", "digits@main~", Address{Dataset: "digits", Version: "main", Back: 1}, "digits@main~1"},
		{"some before", "digits@v1~12:x", Address{Dataset: "digits", Version: "v1", Back: 12, Path: "x", HasPath: true}, "digits@v1~12:/x"},
		{"a path", "digits:/train/0.png", Address{Dataset: "digits", Path: "train/0.png", HasPath: true}, "digits@main:/train/0.png"},
		{"a path without a slash", "digits@v1.0:train", Address{Dataset: "digits", Version: "v1.0", Path: "train", HasPath: true}, "digits@v1.0:/train"},
		{"a folder", "digits:train//a/./", Address{Dataset: "digits", Path: "train/a", HasPath: true, Folder: true}, "digits@main:/train/a"},
		{"the top", "digits:/", Address{Dataset: "digits", HasPath: true, Folder: true}, "digits@main:/"},
		{"a path with signs", "digits:/a@b:c", Address{Dataset: "digits", Path: "a@b:c", HasPath: true}, "digits@main:/a@b:c"},
		{"a pattern", "digits:/*.png", Address{Dataset: "digits", Path: "*.png", HasPath: true}, "digits@main:/*.png"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if got.String() != c.shown {
				t.Errorf("shown as %s, want %s", got, c.shown)
			}
			again, err := Parse(got.String())
			if err != nil || again.String() != got.String() {
				t.Errorf("%s is read as %v, %v", got, again, err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"nothing", "", "the name of a dataset is missing"},
		{"only a path", ":/a", "the name of a dataset is missing; give DATASET"},
		{"capitals", "Digits", `"Digits" is no name for a dataset: it has 3 to 63 lower-case letters`},
		{"too short", "ab", "3 to 63"},
		{"too long", strings.Repeat("a", 64), "3 to 63"},
		{"no branch", "digits@", "after @ comes a branch"},
		{"a branch with a slash", "digits@a/b", "after @ comes a branch"},
		{"two versions", "digits@a@b", "after @ comes a branch"},
		{"no number", "digits@main~x", "how many commits before"},
		{"a negative number", "digits@main~-1", "how many commits before"},
		{"upwards", "digits:/a/../b", `must not hold ".."`},
		{"a pattern that does not end", "digits:/a/[b", "the pattern [b cannot be read"},
		{"NUL", "digits:/a\x00b", "the character NUL"},
		{"a long path", "digits:" + strings.Repeat("/a", 2049), "has 4098 bytes; at most 4095"},
		{"a long name", "digits:/" + strings.Repeat("a", 256), "has 256 bytes; at most 255"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.text)
			if code, _ := exit.Of(err); code != exit.Misuse || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func TestWhereCommitsGo(t *testing.T) {
	for text, fine := range map[string]bool{
		"digits": true, "digits@next:/a": true, "digits@main~1": false, "digits@" + strings.Repeat("ab", 32): false,
	} {
		if _, err := ParseBranch(text); (err == nil) != fine {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseBare("digits@main:/"); err == nil || !strings.Contains(err.Error(), "whole versions") {
		t.Error(err)
	}
}

func TestPatterns(t *testing.T) {
	for pattern, base := range map[string]string{"train/*.png": "train", "*": "", "a/b/**": "a/b", `a\*/b/?`: "a*/b", "a/b": "a"} {
		if got := Base(pattern); got != base {
			t.Errorf("%s: everything is below %q, want %q", pattern, got, base)
		}
	}
	for pattern, want := range map[string]bool{"a": false, `a\*`: false, "a*": true, "[a]": true, "a?": true} {
		if IsPattern(pattern) != want {
			t.Errorf("%s is a pattern: %v", pattern, !want)
		}
	}
	for path, want := range map[string]string{"a/b": "a/b", "": "", `a\*/b`: `a\*/b/**`} {
		if got := Inside(path); got != want {
			t.Errorf("%s: everything in it is %q, want %q", path, got, want)
		}
	}
	if got := Literal(`a\*b\\`); got != `a*b\` {
		t.Error(got)
	}
}
