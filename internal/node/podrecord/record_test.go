package podrecord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// TestReadAll: readable records are returned although others are not, and the error names these.
func TestReadAll(t *testing.T) {
	dir := t.TempDir()
	good := &Record{Cluster: "c", UID: "good", Name: "train-0", GPUs: []string{"GPU-1"}}
	if err := good.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"broken": "{", "moved": `{"uid":"good"}`} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, recordName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "new"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAll(dir)
	if diff := cmp.Diff(map[types.UID]*Record{"good": good}, got); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"pod broken: unexpected end of JSON input", `pod moved: it is of pod "good"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if none, err := ReadAll(filepath.Join(dir, "none")); none != nil || err != nil {
		t.Errorf("without a folder: %v, %v", none, err)
	}
}
