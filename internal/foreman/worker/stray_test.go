package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// TestWarn has programs write into an input, beside the output and into the folder where
// they run: it is said of those that left the output empty.
func TestWarn(t *testing.T) {
	for name, tt := range map[string]struct {
		writes []string
		says   string
	}{
		"into the output":            {[]string{"datum/out/made"}, ""},
		"nothing":                    {nil, ""},
		"into the output and beside": {[]string{"datum/out/made", "datum/in/images/made"}, ""},
		"into an input":              {[]string{"datum/in/images/deep/made"}, "wrote $MUSTER_INPUT_IMAGES/deep/made, which is not kept: write to $MUSTER_OUTPUT"},
		"beside the output":          {[]string{"pfs/made"}, "pfs/made, which"},
		"where it runs":              {[]string{"here/made", "here/cache/made"}, "here/made, which"},
		"to many places":             {[]string{"here/made", "pfs/a", "pfs/b", "datum/in/images/made"}, "$MUSTER_INPUT_IMAGES/made and "},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, folder := range []string{"datum/in/images/deep", "datum/out", "pfs", "here/cache"} {
				if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(filepath.Join(root, "here"))
			write := func(path string, at time.Time) {
				path = filepath.Join(root, path)
				if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			for _, path := range []string{"datum/in/images/given", "pfs/old", "here/code"} {
				write(path, began.Add(-time.Hour))
			}
			for _, path := range tt.writes {
				write(path, began.Add(time.Second))
			}
			d := shift.Datum{Folder: filepath.Join(root, "datum")}
			w := &worker{program: &shift.Program{Mount: filepath.Join(root, "pfs"), Inputs: []string{"images", "labels"}}}
			if err := w.warn(d, began); err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(filepath.Join(d.Folder, shift.LogFile))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if tt.says == "" && len(log) > 0 || !strings.Contains(string(log), tt.says) || strings.Contains(string(log), "cache") {
				t.Errorf("it says %q, want %q", log, tt.says)
			}
		})
	}
}
