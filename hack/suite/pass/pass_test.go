package pass

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func open(t *testing.T) *Records {
	t.Helper()
	r, err := Open(filepath.Join(t.TempDir(), "passes"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func record(in Inputs) Record {
	return Record{Suite: "e2e", Inputs: in, At: at, Seconds: 600, Tests: 212}
}

func pass(t *testing.T, r *Records, x Record) bool {
	t.Helper()
	kept, err := r.Pass(x)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func TestPassed(t *testing.T) {
	r := open(t)
	in := Inputs{"kernel": "6.18", "bin/muster": "abc"}
	if got := r.Passed("e2e", in, at); got != nil {
		t.Fatalf("a pass before there was any: %v", got)
	}
	if !pass(t, r, record(in)) {
		t.Fatal("the pass is not kept")
	}
	want := record(in)
	if diff := cmp.Diff(&want, r.Passed("e2e", Inputs{"bin/muster": "abc", "kernel": "6.18"}, at.Add(Lifetime))); diff != "" {
		t.Error(diff)
	}
	for name, got := range map[string]*Record{
		"another kernel":   r.Passed("e2e", Inputs{"kernel": "6.19", "bin/muster": "abc"}, at),
		"an input more":    r.Passed("e2e", Inputs{"kernel": "6.18", "bin/muster": "abc", "uid": "0"}, at),
		"an input less":    r.Passed("e2e", Inputs{"kernel": "6.18"}, at),
		"another suite":    r.Passed("python", in, at),
		"after a week":     r.Passed("e2e", in, at.Add(Lifetime+time.Second)),
		"before it passed": r.Passed("e2e", in, at.Add(-time.Second)),
	} {
		if got != nil {
			t.Errorf("%s: a pass", name)
		}
	}
}

// TestKey: no two sets of inputs are told apart by where a name or a digest ends.
func TestKey(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range []Inputs{{}, {"a": "b"}, {"ab": ""}, {"": "ab"}, {"a": "b c"}, {"a": `b" "c`}, {"a": "b", "c": ""}, {"a": "b\n\"c\" \"\""}} {
		if seen[in.Key()] {
			t.Errorf("%q has the key of another", in)
		}
		seen[in.Key()] = true
	}
}

func TestAFailureIsRemembered(t *testing.T) {
	r := open(t)
	in := Inputs{"kernel": "6.18"}
	pass(t, r, record(in))
	if err := r.Fail(record(in)); err != nil {
		t.Fatal(err)
	}
	if r.Passed("e2e", in, at) != nil {
		t.Error("the pass before the failure is believed")
	}
	if pass(t, r, record(in)) || r.Passed("e2e", in, at) != nil {
		t.Error("a pass after a failure with the same inputs is recorded")
	}
	later := record(in)
	later.At = at.Add(Lifetime + time.Second)
	if !pass(t, r, later) {
		t.Error("a failure is held against the suite for more than a week")
	}
	other := record(Inputs{"kernel": "6.19"})
	if !pass(t, r, other) {
		t.Error("a failure with other inputs is held against the suite")
	}
}

func TestLast(t *testing.T) {
	r := open(t)
	if r.Last("e2e") != nil {
		t.Error("a last pass before there was any")
	}
	for i, kernel := range []string{"6.19", "6.18"} {
		x := record(Inputs{"kernel": kernel, "uid": "0"})
		x.At = at.Add(time.Duration(-i) * time.Hour)
		pass(t, r, x)
	}
	last := r.Last("e2e")
	if last == nil || last.Inputs["kernel"] != "6.19" {
		t.Fatalf("the last is %v", last)
	}
	changed := Inputs{"kernel": "6.20", "python": "3.11"}.Changed(last.Inputs)
	if diff := cmp.Diff([]string{"kernel", "python", "uid"}, changed); diff != "" {
		t.Error(diff)
	}
}

// TestCutShort: a file that a killed run or a full disk left is no pass.
func TestCutShort(t *testing.T) {
	r := open(t)
	in := Inputs{"kernel": "6.18"}
	pass(t, r, record(in))
	file := r.path("e2e", in, "pass")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := range whole {
		if err := os.WriteFile(file, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if r.Passed("e2e", in, at) != nil {
			t.Fatalf("the first %d of %d bytes are believed", size, len(whole))
		}
	}
	another := strings.Replace(string(whole), "6.18", "6.19", 1)
	if err := os.WriteFile(file, []byte(another), 0o600); err != nil {
		t.Fatal(err)
	}
	if r.Passed("e2e", in, at) != nil {
		t.Error("a record of other inputs under this name is believed")
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a folder that all may write to: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil {
		t.Error("a file as a folder")
	}
	if os.Getuid() != 0 {
		return // the rest needs a folder of another user
	}
	other := t.TempDir()
	if err := os.Chown(other, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a folder of another user: %v", err)
	}
}
