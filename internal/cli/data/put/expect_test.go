package put

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a": 3, "deep/er/b": 40, "deep/c": 0} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, size), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("deep", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	all := []source{{folder, filepath.Join(dir, "link"), "x"}, {file, filepath.Join(dir, "a"), "a"}}
	if total, err := measure(t.Context(), all); total != 43 || err != nil {
		t.Errorf("%d bytes, %v", total, err)
	}
	if _, err := measure(t.Context(), append(all, source{kind: stream})); !errors.Is(err, errUnknown) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(ended, all); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
