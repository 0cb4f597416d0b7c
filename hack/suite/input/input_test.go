package input

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFiles: whatever a test could see of the files changes the digest; their times do not.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a/one"), "1")
	write(t, filepath.Join(dir, "two"), "2")
	if err := os.Symlink("two", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	paths := []string{"a/one", "link", "two"}
	sum := func() string {
		t.Helper()
		s, err := Files(dir, paths)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := sum()
	if err := os.Chtimes(filepath.Join(dir, "two"), t0, t0); err != nil {
		t.Fatal(err)
	}
	if sum() != before {
		t.Error("a file's time changes the digest")
	}
	seen := map[string]string{before: "before"}
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"content", func() error { return os.WriteFile(filepath.Join(dir, "two"), []byte("3"), 0o644) }},
		{"mode", func() error { return os.Chmod(filepath.Join(dir, "two"), 0o755) }},
		{"a link's target", func() error {
			return os.Rename(filepath.Join(dir, "link"), filepath.Join(dir, "gone"))
		}},
		{"a file less", func() error { return os.Remove(filepath.Join(dir, "a/one")) }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		now := sum()
		if other, known := seen[now]; known {
			t.Errorf("%s: the digest is that of %s", change.name, other)
		}
		seen[now] = change.name
	}
}

func TestChoices(t *testing.T) {
	paths := []string{"charts/a.yaml", "chartsmore/b.go", "hack/x", "internal/y.go"}
	for name, test := range map[string]struct{ got, want []string }{
		"below":  {Below(paths, "charts", "hack/x"), []string{"charts/a.yaml", "hack/x"}},
		"ending": {Ending(paths, ".go"), []string{"chartsmore/b.go", "internal/y.go"}},
		"except": {Except(paths, []string{"hack/x", "charts/a.yaml"}), []string{"chartsmore/b.go", "internal/y.go"}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTracked(t *testing.T) {
	paths, err := Tracked(t.Context(), "../../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(Below(paths, "hack/suite/input")) < 4 || len(Below(paths, ".git", "bin")) > 0 {
		t.Errorf("the files of the repository: %d, for example %q", len(paths), paths[:min(5, len(paths))])
	}
}

// TestPrograms: what a name leads to counts, not how PATH is written.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	first, second, empty := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "empty")
	for _, file := range []string{"first/rclone", "first/notes", "second/rclone", "second/git", "empty/notes"} {
		write(t, filepath.Join(dir, file), file)
		if !strings.HasSuffix(file, "notes") {
			if err := os.Chmod(filepath.Join(dir, file), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	find := func(folders ...string) []string {
		return programs(strings.Join(folders, ":"), []string{"absent", "git", "notes", "rclone"})
	}
	want := []string{
		fmt.Sprintf("%q %q 10", "git", filepath.Join(second, "git")),
		fmt.Sprintf("%q %q 12", "rclone", filepath.Join(first, "rclone")),
	}
	for _, same := range [][]string{{first, second}, {first, empty, second}, {first, second, first}, {filepath.Join(dir, "absent"), first, second}} {
		if diff := cmp.Diff(want, find(same...)); diff != "" {
			t.Errorf("%q: %s", same, diff)
		}
	}
	if cmp.Equal(want, find(second, first)) {
		t.Error("another rclone is the same")
	}
	write(t, filepath.Join(first, "rclone"), "another version")
	if cmp.Equal(want, find(first, second)) {
		t.Error("another size is the same")
	}
}

// TestStarted: the list has every program that Go code here starts by a name.
func TestStarted(t *testing.T) {
	call := regexp.MustCompile(`exec\.(?:Command|CommandContext|LookPath)\((?:[A-Za-z.()]+, )?"([a-z][a-z0-9._-]*)"`)
	paths, err := Tracked(t.Context(), "../../..")
	if err != nil {
		t.Fatal(err)
	}
	// A file that comes is in a folder that this process has looked at.
	if err := Observe("../../..", Below(paths, "cmd", "internal", "test", "hack/suite")); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, path := range Ending(Below(paths, "cmd", "internal", "test", "hack/suite"), ".go") {
		text, err := os.ReadFile(filepath.Join("../../..", path))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range call.FindAllStringSubmatch(string(text), -1) {
			calls++
			if !slices.Contains(started, match[1]) {
				t.Errorf("%s starts %s, which is not in the list", path, match[1])
			}
		}
	}
	if calls < 20 || !slices.IsSorted(started) {
		t.Errorf("%d calls found; the list is sorted: %v", calls, slices.IsSorted(started))
	}
}

func TestMachine(t *testing.T) {
	t.Setenv("MUSTER_TEST_SOMETHING", "secret")
	first, err := Machine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := Machine(t.Context(), "MUSTER_TEST_SOMETHING")
	if err != nil {
		t.Fatal(err)
	}
	const name = "variables MUSTER_*"
	if first[name] == second[name] {
		t.Error("a variable changes nothing")
	}
	first[name] = second[name]
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the machine differs from itself: %s", diff)
	}
	for name, value := range first {
		if strings.Contains(value, "secret") || value == "" && name != "control groups" {
			t.Errorf("%s is %q", name, value)
		}
	}
}
