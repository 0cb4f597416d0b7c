package cluster

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

func TestOptionsComplete(t *testing.T) {
	options, err := Options{Nodes: []NodeOptions{{}, {Name: "b", GPUs: 2, Product: "P", MemoryMiB: 1}}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	want := []NodeOptions{{Name: "node-1", Product: "Pretend-80GB", MemoryMiB: 81920}, {Name: "b", GPUs: 2, Product: "P", MemoryMiB: 1}}
	if diff := cmp.Diff(want, options.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if _, err := (Options{Nodes: []NodeOptions{{Name: "node-2"}, {}}}).complete(); err == nil || !strings.Contains(err.Error(), "node-2") {
		t.Errorf("two nodes with one name: %v", err)
	}
}

func TestSiteTaken(t *testing.T) {
	route := func(destination string) netlink.Route {
		_, network, err := net.ParseCIDR(destination)
		if err != nil {
			t.Fatal(err)
		}
		return netlink.Route{Dst: network}
	}
	for name, test := range map[string]struct {
		routes []netlink.Route
		want   bool
	}{
		"nothing":         {nil, false},
		"default route":   {[]netlink.Route{{}, route("0.0.0.0/0")}, false},
		"the same":        {[]netlink.Route{route("10.100.0.0/24")}, true},
		"all around it":   {[]netlink.Route{route("10.0.0.0/8")}, true},
		"one address":     {[]netlink.Route{route("10.100.0.7/32")}, true},
		"someone's pods":  {[]netlink.Route{route("10.100.3.0/24")}, true},
		"a neighbour's":   {[]netlink.Route{route("10.101.0.0/24")}, false},
		"far from it all": {[]netlink.Route{route("192.168.0.0/16")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := taken(100, test.routes); got != test.want {
				t.Errorf("taken: %v, want %v", got, test.want)
			}
		})
	}
}

func TestLibraryIn(t *testing.T) {
	for line, want := range map[string]string{
		"\tlinux-vdso.so.1 (0x00007ffc)":                                "",
		"\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)":     "/usr/lib/x86_64-linux-gnu/libm.so.6",
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)":                      "/usr/lib64/ld-linux-x86-64.so.2",
		"\tlibpython3.so => /opt/python/lib/libpython3.so (0x00007f)":   "/opt/python/lib/libpython3.so",
		"\tliba.so => /opt/a/b/../../lib/liba.so (0x00007f)":            "/opt/lib/liba.so",
		"\tlibmissing.so => not found":                                  "",
		"\tstatically linked":                                           "",
		"/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64.so:\n": "",
	} {
		if got := libraryIn(line); got != want {
			t.Errorf("in %q: %q, want %q", line, got, want)
		}
	}
}

func TestLayer(t *testing.T) {
	from := t.TempDir()
	for path, content := range map[string]string{"data/a": "A", "data/skip/b": "B"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(from, filepath.Dir(path)), 0o700), os.WriteFile(filepath.Join(from, path), []byte(content), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(from, "data/link")); err != nil {
		t.Fatal(err)
	}
	changed := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(filepath.Join(from, "data/a"), changed, changed.Add(900*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	image := Image{Name: "x", Files: []File{
		{To: "/etc/motd", Content: "hello"}, {To: "/tmp"}, {To: "/bin", Link: "usr/bin"},
		{To: "/data", From: from + "/data", Skip: func(path string, _ fs.DirEntry) bool { return filepath.Base(path) == "skip" }},
	}}
	file, err := os.Create(filepath.Join(from, "layer.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := errors.Join(image.layer(file), seek(file)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "data/a" && !header.ModTime.Equal(changed) {
			t.Errorf("%s was changed at %s, want %s: what Python has compiled goes by whole seconds", header.Name, header.ModTime, changed)
		}
		got[header.Name] = string(header.Typeflag) + " " + header.FileInfo().Mode().Perm().String() + " " + header.Linkname + string(content)
	}
	want := map[string]string{
		"etc": "5 -rwxr-xr-x ", "etc/motd": "0 -rw-r--r-- hello", "tmp": "5 -rwxrwxrwx ", "bin": "2 -rwxrwxrwx usr/bin",
		"data": "5 -rwxr-xr-x ", "data/a": "0 -rwx------ A", "data/link": "2 -rwxrwxrwx a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

func seek(file *os.File) error {
	_, err := file.Seek(0, io.SeekStart)
	return err
}

func TestFingerprint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	image := Image{Name: "x", Files: []File{{To: "/file", From: path}}}
	key := func() string {
		got, err := image.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := key()
	if again := key(); again != first {
		t.Errorf("the same files: %s and %s", first, again)
	}
	if err := os.WriteFile(path, []byte("22"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := key(); changed == first {
		t.Errorf("another file, and the fingerprint is still %s", first)
	}
}

// Of the images those stay that were used last, or within the time they are
// kept for.
func TestPrune(t *testing.T) {
	folder, now := t.TempDir(), time.Unix(1_800_000_000, 0)
	names := func() string {
		paths, _ := filepath.Glob(filepath.Join(folder, "*.tar"))
		var found []string
		for _, path := range paths {
			found = append(found, strings.TrimSuffix(filepath.Base(path), ".tar"))
		}
		return strings.Join(found, "")
	}
	for age, name := range strings.Split("abcdefghijkl", "") {
		path, used := filepath.Join(folder, name+".tar"), now.Add(-time.Duration(age)*time.Minute)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, used, used)); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(folder, now.Add(-9*time.Minute)); err != nil || names() != "abcdefghij" {
		t.Errorf("%v, left are %s: a to h are the last %d, i and j not old enough", err, names(), keptImages)
	}
	if err := prune(folder, now); err != nil || names() != "abcdefgh" {
		t.Errorf("%v, left are %s, want a to h", err, names())
	}
}

// TestPinned: a name with the digest of what is in an image is the same whenever it is
// made, whatever tag it had, and another one where a file is.
func TestPinned(t *testing.T) {
	pinned := func(name, content string) string {
		t.Helper()
		image, err := Image{Name: name, Files: []File{{To: "/file", Content: content}}}.Pinned()
		if err != nil {
			t.Fatal(err)
		}
		repository, digest, _ := strings.Cut(image.Name, "@")
		if want, _, _ := strings.Cut(name, ":1"); repository != want || len(digest) != len("sha256:")+64 {
			t.Errorf("%s pinned is %s", name, image.Name)
		}
		return digest
	}
	one := pinned("muster.test/x:1", "one")
	if again := pinned("host:5000/untagged", "one"); again != one {
		t.Errorf("the same files are %s and %s", one, again)
	}
	if other := pinned("muster.test/x:1", "two"); other == one {
		t.Errorf("other files are %s, too", other)
	}
}
