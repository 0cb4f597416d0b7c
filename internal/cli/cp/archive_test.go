package cp

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/worktree"
)

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]place{
		"mnist/worker-0:model.h5": {job: "mnist", member: "worker-0", path: "model.h5"},
		"mnist:/muster/logs":      {job: "mnist", path: "/muster/logs"},
		"mnist/worker-0:":         {job: "mnist", member: "worker-0"},
		"data.csv":                {path: "data.csv"},
		"./odd:name":              {path: "./odd:name"},
		"/odd:name":               {path: "/odd:name"},
		"a/b/c:d":                 {path: "a/b/c:d"},
		":x":                      {path: ":x"},
	} {
		if diff := cmp.Diff(want, parsePlace(text), cmp.AllowUnexported(place{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestPackAndUnpack(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"a": "one", "sub/b": "two"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/b", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if err := pack(t.Context(), &packed, from, "."); err != nil {
		t.Fatal(err)
	}
	var notes strings.Builder
	if err := unpack(&packed, filepath.Join(to, "new"), "", &notes); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "one", "sub/b": "two", "link": "two"} {
		got, err := os.ReadFile(filepath.Join(to, "new", name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if notes.Len() > 0 {
		t.Errorf("notes: %s", notes.String())
	}
}

// Whatever a member sends, nothing is written outside of the folder.
func TestUnpackStaysInside(t *testing.T) {
	file := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 4, Mode: 0o644}
	}
	for _, test := range []struct {
		name    string
		headers []*tar.Header
		fails   bool
		note    string
	}{
		{"parent", []*tar.Header{file("../evil")}, true, ""},
		{"parent within", []*tar.Header{file("a/../../evil")}, true, ""},
		{"absolute", []*tar.Header{file("/evil")}, true, ""},
		{"link out", []*tar.Header{{Name: "out", Typeflag: tar.TypeSymlink, Linkname: "/"}, file("out/evil")}, false, "left out: out"},
		{"relative link out", []*tar.Header{{Name: "out", Typeflag: tar.TypeSymlink, Linkname: ".."}, file("out/evil")}, false, "left out: out"},
		{"link out over another link", []*tar.Header{
			{Name: "a/b/up", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "z", Typeflag: tar.TypeSymlink, Linkname: "a/b/up/../secret"},
		}, false, "left out: z"},
		{"hard link out", []*tar.Header{{Name: "out", Typeflag: tar.TypeLink, Linkname: "../secret"}}, true, ""},
		{"device", []*tar.Header{{Name: "null", Typeflag: tar.TypeChar}}, false, "left out: null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var packed bytes.Buffer
			archive := tar.NewWriter(&packed)
			for _, header := range test.headers {
				if err := archive.WriteHeader(header); err != nil {
					t.Fatal(err)
				}
				if header.Size > 0 {
					if _, err := archive.Write([]byte("evil")); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := archive.Close(); err != nil {
				t.Fatal(err)
			}
			around := t.TempDir()
			if err := os.WriteFile(filepath.Join(around, "secret"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			var notes strings.Builder
			err := unpack(&packed, filepath.Join(around, "to"), "", &notes)
			if (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(notes.String(), test.note) {
				t.Errorf("notes %q, want %q", notes.String(), test.note)
			}
			if _, err := os.Lstat(filepath.Join(around, "evil")); err == nil {
				t.Error("written outside of the folder")
			}
		})
	}
}

// Older files, links and pipes of the folder do not redirect the files of a member, and unpack waits for
// no pipe.
func TestUnpackOver(t *testing.T) {
	for name, plant := range map[string]func(path, secret string) error{
		"a link":        func(path, secret string) error { return os.Symlink(secret, path) },
		"a link within": func(path, _ string) error { return os.Symlink("beside", path) },
		"a hard link":   func(path, secret string) error { return os.Link(secret, path) },
		"a pipe":        func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"a file":        func(path, _ string) error { return os.WriteFile(path, []byte("before, and longer"), 0o400) },
	} {
		t.Run(name, func(t *testing.T) {
			around := t.TempDir()
			secret, to := filepath.Join(around, "secret"), filepath.Join(around, "to")
			err := errors.Join(os.WriteFile(secret, []byte("x"), 0o600), os.Mkdir(to, 0o755), os.WriteFile(filepath.Join(to, "beside"), []byte("y"), 0o600), plant(filepath.Join(to, "f"), secret))
			if err != nil {
				t.Fatal(err)
			}
			packed, err := crafted.Pack(map[string]string{"f": "sent"})
			if err != nil {
				t.Fatal(err)
			}
			if err := unpack(bytes.NewReader(packed), to, "", io.Discard); err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]string{secret: "x", filepath.Join(to, "beside"): "y", filepath.Join(to, "f"): "sent"} {
				if text, err := os.ReadFile(path); err != nil || string(text) != want {
					t.Errorf("%s is %q, %v", path, text, err)
				}
			}
		})
	}
}

// The error names the file, link or folder that unpack cannot replace, its kind, and the next step.
func TestUnpackInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		sent, there map[string]string
		says        string
	}{
		"a file over a folder":           {map[string]string{"m": "x"}, map[string]string{"m/f": "y"}, `"m" is a file in the copy, and a folder that is not empty in `},
		"a link over a folder":           {map[string]string{"m -> f": ""}, map[string]string{"m/f": "y"}, `"m" is a link in the copy, and a folder that is not empty in `},
		"a folder over a file":           {map[string]string{"m/f": "x"}, map[string]string{"m": "y"}, `"m" is a folder in the copy, and a file in `},
		"a deep folder over a file":      {map[string]string{"a/m/b/f": "x"}, map[string]string{"a/m": "y"}, `"a/m" is a folder in the copy, and a file in `},
		"a folder over a link out":       {map[string]string{"m/f": "x"}, map[string]string{"m -> ../beside": ""}, `"m" is a folder in the copy, and a link out of the folder in `},
		"a folder over a link to a file": {map[string]string{"m/f": "x"}, map[string]string{"m -> f": "", "f": "y"}, `"m" is a folder in the copy, and a file in `},
		"a folder over a folder":         {map[string]string{"m/f": "x"}, map[string]string{"m/g": "y"}, ""},
		"a folder over a link within":    {map[string]string{"m/f": "x"}, map[string]string{"m -> n": "", "n/g": "y"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "to")
			packed, err := crafted.Pack(c.sent)
			if err := errors.Join(err, os.MkdirAll(filepath.Join(to, "../beside"), 0o755), os.Mkdir(to, 0o755), crafted.Plant(to, c.there)); err != nil {
				t.Fatal(err)
			}
			err = unpack(bytes.NewReader(packed), to, "", io.Discard)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.says+to+": cp ") || !strings.Contains(err.Error(), "or copy to another") {
				t.Errorf("%v", err)
			}
			if got, err := crafted.Found(to); err != nil || crafted.Differ(c.there, got) != "" {
				t.Errorf("it became %v, %v", got, err)
			}
		})
	}
}

// pack sends a link to a folder as a link, or as the folder if the path ends in a slash.
func TestPackOfALink(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o755), os.WriteFile(filepath.Join(dir, "folder", "f"), []byte("x"), 0o600), os.Symlink("folder", filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"link": "top", "link/": "top top/f", "folder/": "top top/f"} {
		var packed bytes.Buffer
		if err := pack(t.Context(), &packed, dir+"/"+path, "top"); err != nil {
			t.Fatal(err)
		}
		var names []string
		for in := tar.NewReader(&packed); ; {
			header, err := in.Next()
			if err != nil {
				break
			}
			names = append(names, header.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s is sent as %q, want %q", path, got, want)
		}
	}
}

// Any tree comes as it was sent.
func TestEveryTree(t *testing.T) {
	for m := range crafted.Trees(t, 50, 50) {
		from, to := t.TempDir(), t.TempDir()
		var packed bytes.Buffer
		err := errors.Join(crafted.Plant(from, m), pack(t.Context(), &packed, from, "."), unpack(&packed, to, "", io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		crafted.Check(t, m, "comes", to)
	}
}

// On a file system that ignores case, a file does not replace an earlier file of the same archive.
func TestNamesThatAreOneThere(t *testing.T) {
	for there, fails := range map[string]bool{"readme": true, "other": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, there), []byte("first"), 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = root.Close() }()
		// As if README had been written, which has this name there.
		u := &unpacking{root: root, archive: tar.NewReader(strings.NewReader("")), made: map[string]string{worktree.Fold("README"): "README"}}
		if err := u.file("readme", 0o600); (err != nil && strings.Contains(err.Error(), "are one name")) != fails {
			t.Errorf("%s is there: %v", there, err)
		}
	}
}
