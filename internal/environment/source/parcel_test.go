package source

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sent is a folder as a parcel, and as the tar that it travels as.
func sent(t *testing.T, s *Store, folder string) (*Parcel, []byte) {
	t.Helper()
	result, err := s.Snapshot(t.Context(), folder, Options{})
	must(t, err)
	p, err := s.Parcel(result.Digest)
	must(t, err)
	var out bytes.Buffer
	must(t, p.WriteTar(t.Context(), &out, s.open))
	return p, out.Bytes()
}

func (s *Store) open(_ context.Context, c Content) (io.ReadCloser, error) { return s.Open(c.Hash) }

func TestASnapshotTravels(t *testing.T) {
	s := newStore(t)
	folder := files(t, map[string]string{"train.py": "print(1)\n", "lib/a.py": "a", "lib/b.py": "a", "lib-2/x": "", "empty/": ""})
	must(t, os.Symlink("lib/a.py", filepath.Join(folder, "link")))
	must(t, os.Chmod(filepath.Join(folder, "train.py"), 0o755))
	must(t, os.Chmod(filepath.Join(folder, "lib"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(folder, "lib"), 0o755) })
	p, data := sent(t, s, folder)
	if got := len(p.Contents()); got != 3 || p.Files() != 4 {
		t.Errorf("%d contents of %d files, want 3 of 4", got, p.Files())
	}
	dst := filepath.Join(t.TempDir(), "code")
	must(t, Unpack(t.Context(), bytes.NewReader(data), p.Digest(), dst, Limits{}))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dst, "lib"), 0o755) })
	if diff := cmp.Diff(listing(t, folder), listing(t, dst)); diff != "" {
		t.Errorf("it arrived otherwise (-sent +arrived):\n%s", diff)
	}
	if err := Unpack(t.Context(), bytes.NewReader(data), p.Digest(), dst, Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an existing folder: %v", err)
	}
}

// TestWhatWasChangedOnTheWay cuts and changes the archive everywhere: nothing
// is ever laid out but the snapshot.
func TestWhatWasChangedOnTheWay(t *testing.T) {
	s := newStore(t)
	p, data := sent(t, s, files(t, map[string]string{"train.py": "print(1)\n", "lib/a.py": "a"}))
	parent := t.TempDir()
	dst := filepath.Join(parent, "code")
	try := func(what string, data []byte, limits Limits) {
		t.Helper()
		if err := Unpack(t.Context(), bytes.NewReader(data), p.Digest(), dst, limits); err == nil {
			t.Errorf("%s: it was taken", what)
			must(t, os.RemoveAll(dst))
		}
	}
	// What a crash left goes with the next.
	must(t, os.Mkdir(filepath.Join(parent, abandonedPrefix("code")+"1"), 0o700))
	// All but the padding behind the last content, which says nothing.
	for n := 0; n <= len(data)-3*512; n += 64 {
		try("cut", data[:n], Limits{})
	}
	changed := bytes.Replace(data, []byte("print(1)"), []byte("print(2)"), 1)
	try("another content", changed, Limits{})
	try("too many files", data, Limits{MaxFiles: 1})
	try("too many bytes", data, Limits{MaxBytes: 5})
	for name, header := range map[string]*tar.Header{
		"out of the folder":      {Typeflag: tar.TypeReg, Name: "../x", Mode: 0o644},
		"absolute":               {Typeflag: tar.TypeReg, Name: "/tmp/x", Mode: 0o644},
		"a device":               {Typeflag: tar.TypeChar, Name: "x"},
		"a hard link":            {Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"},
		"a link that leads out":  {Typeflag: tar.TypeSymlink, Name: "x", Linkname: "../.."},
		"nothing of what it was": {Typeflag: tar.TypeDir, Name: "x/"},
	} {
		var out bytes.Buffer
		archive := tar.NewWriter(&out)
		must(t, archive.WriteHeader(header))
		must(t, archive.Close())
		try(name, out.Bytes(), Limits{})
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestAParcelOfSomebodyElse(t *testing.T) {
	const hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	file := func(path string) string {
		return `{"path":"` + path + `","type":"file","mode":420,"size":3,"hash":"` + hash + `"}`
	}
	for name, tt := range map[string]struct {
		entries string
		limits  Limits
		// says is empty for what is taken.
		says string
	}{
		"as it should be":         {entries: `{"path":"a","type":"folder","mode":493},` + file("a/b")},
		"out of the folder":       {entries: file("../b"), says: "not allowed"},
		"absolute":                {entries: file("/b"), says: "not allowed"},
		"twice":                   {entries: file("b") + "," + file("b"), says: "not in its place"},
		"below a link":            {entries: `{"path":"a","type":"link","target":"c"},` + file("a/b"), says: "lies in no folder"},
		"in no folder":            {entries: file("a/b"), says: "lies in no folder"},
		"a link that leads out":   {entries: `{"path":"a","type":"link","target":"../c"}`, says: "not allowed"},
		"a link to the machine":   {entries: `{"path":"a","type":"link","target":"/etc/passwd"}`},
		"below such a link":       {entries: `{"path":"a","type":"link","target":"/etc"},` + file("a/b"), says: "lies in no folder"},
		"setuid":                  {entries: `{"path":"a","type":"file","mode":2541,"size":3,"hash":"` + hash + `"}`, says: "not allowed"},
		"a hash that is none":     {entries: strings.Replace(file("b"), hash, "../../../etc", 1), says: "not allowed"},
		"a negative size":         {entries: strings.Replace(file("b"), `:3,`, `:-3,`, 1), says: "not allowed"},
		"another way of writing":  {entries: strings.Replace(file("b"), `,`, `, `, 1), says: "one form"},
		"too many files":          {entries: file("a") + "," + file("b"), limits: Limits{MaxFiles: 1}, says: "too large"},
		"too many bytes":          {entries: file("a"), limits: Limits{MaxBytes: 2}, says: "too large"},
		"more than can be added":  {entries: strings.Replace(file("a")+","+file("b"), `:3,`, `:9223372036854775807,`, 2), says: "too large"},
		"a field of another kind": {entries: `{"path":"a","type":"device"}`, says: "not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(`{"version":1,"entries":[` + tt.entries + "]}\n")
			sum := sha256.Sum256(data)
			_, err := ReadParcel(digestPrefix+hex.EncodeToString(sum[:]), data, tt.limits)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
	if _, err := ReadParcel(digestPrefix+hash, []byte("{}"), Limits{}); err == nil {
		t.Error("a list of another digest was taken")
	}
}
