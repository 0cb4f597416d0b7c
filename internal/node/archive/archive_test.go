package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logDir makes a folder with a log in it.
func logDir(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKeepListDrop(t *testing.T) {
	a := New(filepath.Join(t.TempDir(), "archive"))
	first := Pod{Namespace: "ns", Job: "job", Name: "j-worker-0", UID: "1"}
	second := first
	second.UID = "2"
	logs := []Log{{"main", 0, logDir(t, "a")}, {"main", 1, logDir(t, "b")}}
	// Twice: the second time nothing is left to move.
	for range 2 {
		if err := a.Keep(first, logs); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Keep(second, []Log{{"main", 0, logDir(t, "c")}}); err != nil {
		t.Fatal(err)
	}
	entries, err := a.List("ns", "job")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(e.Dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(data))
		if e.Pod != "j-worker-0" || e.Container != "main" {
			t.Errorf("got %+v", e)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Error(diff)
	}
	jobs, err := a.Jobs()
	if diff := cmp.Diff(map[string][]string{"ns": {"job"}}, jobs); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := a.Drop("ns", "../ns"); err == nil {
		t.Error("a job's UID that leads elsewhere")
	}
	if err := a.Drop("ns", "job"); err != nil {
		t.Fatal(err)
	}
	if jobs, err := a.Jobs(); err != nil || len(jobs) != 0 {
		t.Errorf("got %v, %v", jobs, err)
	}
}
