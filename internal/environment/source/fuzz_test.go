package source

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzReadParcel: an accepted list is within its limits, names no path outside, is encoded as the
// same bytes, and becomes a folder of that digest.
func FuzzReadParcel(f *testing.F) {
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of nothing
	for _, entries := range []string{
		`{"path":"a","type":"folder","mode":493},{"path":"a/b","type":"file","mode":420,"hash":"` + hash + `"},{"path":"l","type":"link","mode":0,"target":"a/b"}`,
		`{"path":"a","type":"link","target":"../c"}`, `{"path":"a","type":"file","mode":420,"size":9223372036854775807,"hash":"` + hash + `"}`,
	} {
		f.Add([]byte(`{"version":1,"entries":[` + entries + "]}\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := sha256.Sum256(data)
		digest := digestPrefix + hex.EncodeToString(sum[:])
		limits := Limits{MaxFiles: 4, MaxBytes: 1 << 20}
		p, err := ReadParcel(digest, data, limits)
		if err != nil {
			return
		}
		if p.Files() > limits.MaxFiles || p.Bytes() < 0 || p.Bytes() > limits.MaxBytes || !bytes.Equal(p.Encoded(), data) {
			t.Fatalf("taken: %d files of %d bytes: %q", p.Files(), p.Bytes(), data)
		}
		for _, c := range p.Contents() {
			if !safeHash(c.Hash) || !slices.Contains(p.Sequence(), c) {
				t.Fatalf("%q has the content %+v", data, c)
			}
		}
		var raw bytes.Buffer
		err = p.WriteTar(t.Context(), &raw, func(context.Context, Content) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil })
		if err != nil {
			return // its contents are not empty files
		}
		parent := t.TempDir()
		if err := Unpack(t.Context(), &raw, digest, filepath.Join(parent, "code"), limits); err != nil {
			// A name may be too long for the disk, or tar may not be able to hold it.
			left(t, parent)
		}
	})
}

// FuzzUnpack: Unpack of any tar leaves no file of another snapshot.
func FuzzUnpack(f *testing.F) {
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range []tar.Header{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "d/x", Typeflag: tar.TypeReg, Mode: 0o644}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "l/x", Typeflag: tar.TypeReg}} {
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(raw.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent := t.TempDir()
		err := Unpack(t.Context(), bytes.NewReader(raw), digestPrefix+strings.Repeat("0", 64), filepath.Join(parent, "code"), Limits{MaxBytes: 1 << 20, MaxFiles: 16})
		if err == nil {
			t.Fatal("it is taken for a snapshot that it is not")
		}
		left(t, parent)
	})
}

// left checks that a failed Unpack left no file.
func left(t *testing.T, parent string) {
	t.Helper()
	if list, err := os.ReadDir(parent); err != nil || len(list) > 0 {
		t.Fatalf("left behind: %v, %v", list, err)
	}
}

// FuzzIgnore: each line of rules is a pattern with one way to match, which needs time for the
// length of a path alone, or is dropped.
func FuzzIgnore(f *testing.F) {
	f.Add("*.pyc\n!a.pyc\n/build/\n**/x/**\n", "a/x/b.pyc")
	f.Add(strings.Repeat("**/", 40)+"x", strings.Repeat("a/", 60)+"y")
	f.Add(strings.Repeat("*a", 40), strings.Repeat("a", 200)+"b")
	f.Add("[!a-\\]]?{", "é")
	f.Fuzz(func(t *testing.T, text, name string) {
		found := parseIgnore(text)
		if len(found) > strings.Count(text, "\n")+1 {
			t.Fatalf("%q has %d patterns", text, len(found))
		}
		for _, p := range found {
			ways := 0
			for _, set := range []bool{p.literal != "", p.suffix != "", p.expression != nil} {
				if set {
					ways++
				}
			}
			if ways != 1 || p.folders && p.match(name, false) {
				t.Fatalf("%q is read as %+v", text, p)
			}
			p.match(name, true)
		}
	})
}
