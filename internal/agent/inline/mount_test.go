package inline

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/osfile"
)

// TestShowFollowsNoLink opens folders as [Show] does, with a link in the place of each name.
func TestShowFollowsNoLink(t *testing.T) {
	top, elsewhere := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(top, "a", "b", "c"), filepath.Join(elsewhere, "b", "c"), filepath.Join(elsewhere, "c")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"out": elsewhere, "a/out": elsewhere, "a/b/out": elsewhere, "in": "a", "a/b/in": "c"} {
		if err := os.Symlink(target, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "a", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{"out/b/c", "out", "a/out/c", "a/b/out", "in/b/c", "a/b/in", "a/file"} {
		folder, err := openBelow(top, below)
		if err == nil {
			t.Errorf("%s was opened", below)
			_ = folder.Close()
			continue
		}
		if _, is := errors.AsType[*osfile.KindError](err); !is {
			t.Errorf("%s: %v", below, err)
		}
	}
	for _, below := range []string{"..", "a/../../x", "", "a//b"} {
		if folder, err := openBelow(top, below); err == nil {
			t.Errorf("%q was opened", below)
			_ = folder.Close()
		}
	}
	folder, err := openBelow(top, "a/b/c")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	want, err := os.Stat(filepath.Join(top, "a", "b", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := folder.Stat(); err != nil || !os.SameFile(got, want) {
		t.Errorf("another folder was opened: %v", err)
	}
}
