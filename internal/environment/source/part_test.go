package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPart: a part counts by its content alone, wherever it is, and is laid out alone.
func TestPart(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot := func(files, links map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		for name, text := range files {
			at := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for name, target := range links {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		result, err := s.Snapshot(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return result.Digest
	}
	part := func(digest, at string) Part {
		t.Helper()
		p, err := s.Part(digest, at)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	files := map[string]string{"libs/pkg/setup.py": "a", "libs/pkg/pkg/x.py": "b", "train.py": "c", "libs/other.py": "d"}
	links := map[string]string{"libs/pkg/in": "pkg/x.py", "pkg": "libs/pkg"}
	one := snapshot(files, links)
	files["train.py"], files["libs/other.py"] = "another", "another"
	two := snapshot(files, links)
	files["libs/pkg/pkg/x.py"] = "changed"
	three := snapshot(files, links)
	if a, b := part(one, "libs/pkg"), part(two, "libs/pkg"); a.Digest != b.Digest || !a.Folder || strings.Join(a.Files, " ") != "pkg/x.py setup.py" {
		t.Errorf("%+v and %+v", a, b)
	}
	if a, b := part(one, "libs/pkg"), part(three, "libs/pkg"); a.Digest == b.Digest {
		t.Error("a changed file does not count")
	}
	if a, b := part(one, "."), part(two, "."); a.Digest != one || b.Digest != two {
		t.Errorf("all of it is %s, want %s", a.Digest, one)
	}
	if p := part(one, "train.py"); p.Folder || strings.Join(p.Files, " ") != "train.py" {
		t.Errorf("%+v", p)
	}
	for at, says := range map[string]string{
		"gone": "not in the code", "pkg": "it is a link", "pkg/setup.py": "pkg is a link", "../x": "no path within", "/etc": "no path within", "libs/pk": "not in the code", "": "no path within",
	} {
		if _, err := s.Part(one, at); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", at, err, says)
		}
	}
	links["libs/pkg/pkg/out"] = "../../other.py"
	if _, err := s.Part(snapshot(files, links), "libs/pkg"); err == nil || !strings.Contains(err.Error(), "leads out of it, to ../../other.py") {
		t.Errorf("a link out of the part: %v", err)
	}
	dst := filepath.Join(t.TempDir(), "pkg")
	if err := s.CheckoutPart(t.Context(), one, "libs/pkg", dst); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dst, "in")); err != nil || string(text) != "b" {
		t.Errorf("%q, %v", text, err)
	}
	if entries, err := os.ReadDir(dst); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}
