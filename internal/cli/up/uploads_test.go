package up

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDropFolders removes uploads of former versions once they are old, and nothing of
// those that the gateway has.
func TestDropFolders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"OLD/upload.json", "OLD/.incoming-1", "NOW/upload.json", "ID.json", "ID.p00001"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-oldUploadsLast - time.Hour)
	for _, name := range []string{"OLD", "ID.json"} {
		if err := os.Chtimes(filepath.Join(dir, name), before, before); err != nil {
			t.Fatal(err)
		}
	}
	if err := dropFolders(dir, time.Now()); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"ID.json", "ID.p00001", "NOW"}, left); diff != "" {
		t.Error(diff)
	}
	if err := dropFolders(filepath.Join(dir, "nosuch"), time.Now()); err != nil {
		t.Errorf("where there are none: %v", err)
	}
}
