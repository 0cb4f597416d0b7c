package source

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinksToAbsolutePaths: a link to a path that its readers see stays unchanged and counts by its
// text, and no checkout follows it.
func TestLinksToAbsolutePaths(t *testing.T) {
	top := t.TempDir()
	data, dir := filepath.Join(top, "mnt"), filepath.Join(top, "code")
	must(t, errors.Join(os.MkdirAll(filepath.Join(data, "2024"), 0o700), os.MkdirAll(filepath.Join(dir, "sub"), 0o755)))
	must(t, os.WriteFile(filepath.Join(data, "2024", "x"), []byte("one"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte("1"), 0o644))
	for link, target := range map[string]string{"data": data, "latest": "data/2024", "sub/again": "../latest/x", "none": "/not/there"} {
		must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	s := newStore(t)
	asked := map[string]string{}
	opts := Options{Outside: func(link, target string) error {
		asked[link] = target
		return nil
	}}
	result, err := s.Snapshot(t.Context(), dir, opts)
	must(t, err)
	if len(asked) != 2 || asked["data"] != data || asked["none"] != "/not/there" || result.Files != 1 {
		t.Errorf("asked for %v, %d files", asked, result.Files)
	}
	must(t, os.WriteFile(filepath.Join(data, "2024", "x"), []byte("two"), 0o600))
	again, err := s.Snapshot(t.Context(), dir, opts)
	must(t, err)
	if again.Digest != result.Digest {
		t.Error("the target of a link counts")
	}
	// Each way to lay it out.
	parcel, err := s.Parcel(result.Digest)
	must(t, err)
	var out bytes.Buffer
	must(t, parcel.WriteTar(t.Context(), &out, s.open))
	must(t, s.Checkout(t.Context(), result.Digest, filepath.Join(top, "one")))
	must(t, Unpack(t.Context(), &out, result.Digest, filepath.Join(top, "two"), Limits{}))
	for _, at := range []string{"one", "two"} {
		if target, err := os.Readlink(filepath.Join(top, at, "data")); err != nil || target != data {
			t.Errorf("%s: %q, %v", at, target, err)
		}
		if text, err := os.ReadFile(filepath.Join(top, at, "sub", "again")); err != nil || string(text) != "two" {
			t.Errorf("%s: %q, %v", at, text, err)
		}
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode of a link's target is %v, %v", info.Mode(), err)
	}
	// A package of the code has none: the build sees nothing else.
	if _, err := s.Part(result.Digest, "."); err == nil || !strings.Contains(err.Error(), "leads out of it") {
		t.Errorf("as a part: %v", err)
	}
	if found, err := s.Contains(result.Digest, "data/2024/x"); err != nil || !found {
		t.Errorf("a file below a link is not found: %v", err)
	}
}

func TestLinksToAbsolutePathsThatAreRefused(t *testing.T) {
	seen := func(_, target string) error {
		if strings.HasPrefix(target, "/mnt/") {
			return nil
		}
		return errors.New("mount " + target)
	}
	for name, c := range map[string]struct {
		links map[string]string
		seen  func(link, target string) error
		says  string
	}{
		"not visible to members":    {map[string]string{"a": "/mnt/x"}, nil, "leads out of the folder, to /mnt/x"},
		"this one is not mounted":   {map[string]string{"a": "/data/x"}, seen, "leads out of the folder, to /data/x: mount /data/x"},
		"mounted":                   {map[string]string{"a": "/mnt/x", "b": "a", "c": "b/y"}, seen, ""},
		"over one that is not seen": {map[string]string{"b": "a/y", "a": "/data/x"}, seen, "mount /data/x"},
		"up again behind one":       {map[string]string{"a": "/mnt/x", "b": "a/../y"}, seen, ""},
		"out behind one":            {map[string]string{"a": "/mnt/x", "b": "a/../../y"}, seen, "leads out of the folder"},
		"a loop":                    {map[string]string{"a": "b", "b": "a"}, seen, ""},
		"into the folder":           {map[string]string{"a": "HERE/train.py"}, seen, "make it a relative link"},
		"into it, to nothing":       {map[string]string{"a": "HERE/gone"}, seen, "make it a relative link"},
		"out of the folder":         {map[string]string{"a": "../x"}, seen, "leads out of the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, map[string]string{"train.py": "1"})
			for link, target := range c.links {
				must(t, os.Symlink(strings.Replace(target, "HERE", dir, 1), filepath.Join(dir, link)))
			}
			_, err := newStore(t).Snapshot(t.Context(), dir, Options{Outside: c.seen})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}
