package get

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestRefusedLeavesNothing: a get that is refused leaves no partial file and no empty folder, and
// nothing that was there has changed.
func TestRefusedLeavesNothing(t *testing.T) {
	bytesStore, set := open(t)
	packed, err := crafted.Pack(map[string]string{"a.png": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Put(t.Context(), "main", data.Tar(bytes.NewReader(packed)), data.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	hostile, err := crafted.Store(t.Context(), bytesStore, -1, -1, crafted.Entry{Path: "l", Target: "../x"})
	if err == nil {
		err = hostile.Contents(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		version, address, to string
		file                 bool
		want                 string
	}{
		"a file over a folder":         {"main", "digits:/a.png", "there", true, "a folder with something in it"},
		"a folder over a folder":       {"main", "digits", "there", false, "a folder with something in it"},
		"a pattern without a match":    {"main", "digits:/*.jpg", "new", false, "nothing matches"},
		"a folder that is refused":     {hostile.ID.String(), "digits", "new/deep", false, "out of the tree"},
		"a link, into a new folder":    {hostile.ID.String(), "digits:/l", "new/", true, "out of the tree"},
		"a renamed link, in a new one": {hostile.ID.String(), "digits:/l", "new/x", true, "out of the tree"},
		"a renamed link, refused":      {hostile.ID.String(), "digits:/l", "new", true, "out of the tree"},
		"a folder, into an empty one":  {hostile.ID.String(), "digits", "empty", false, "out of the tree"},
		"a pattern, into an empty one": {"main", "digits:/*.jpg", "empty", false, "nothing matches"},
		"a pattern, existing folder":   {"main", "digits:/*.jpg", "there", false, "nothing matches"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.MkdirAll("there/a.png/mine", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir("empty", 0o755); err != nil {
				t.Fatal(err)
			}
			before := list(t)
			view, err := set.At(t.Context(), c.version)
			if err != nil {
				t.Fatal(err)
			}
			a, err := address.Parse(c.address)
			if err != nil {
				t.Fatal(err)
			}
			bar := meter.New(io.Discard, "Getting")
			defer bar.Stop()
			get := (&options{}).folder
			if c.file {
				get = (&options{}).file
			}
			if _, err := get(t.Context(), view, a, c.to, bar); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if after := list(t); after != before {
				t.Errorf("there is\n%s\nand was\n%s", after, before)
			}
		})
	}
}

// list is everything below the current folder.
func list(t *testing.T) string {
	t.Helper()
	var paths []string
	if err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(paths, "\n")
}
