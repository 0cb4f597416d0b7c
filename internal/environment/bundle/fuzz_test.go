package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// archived is a tar with these entries.
func archived(tb testing.TB, headers ...tar.Header) []byte {
	tb.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for i := range headers {
		if err := w.WriteHeader(&headers[i]); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(make([]byte, headers[i].Size)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return raw.Bytes()
}

// holes returns a tar of a few KiB with one sparse file of a size, in bytes.
func holes(tb testing.TB, size int64) []byte {
	tb.Helper()
	var records strings.Builder
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=x", fmt.Sprintf("GNU.sparse.realsize=%d", size)} {
		length := len(r) + len(" \n") + 2
		fmt.Fprintf(&records, "%d %s\n", length, r)
	}
	// A map of one part without bytes, at the end.
	text := fmt.Sprintf("1\n%d\n0\n", size)
	block := func(name string, flag byte, content string) []byte {
		raw := archived(tb, tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Format: tar.FormatUSTAR})
		raw = raw[:len(raw)-1024]
		copy(raw[512:], content)
		raw[156] = flag
		sum := 0
		copy(raw[148:156], "        ")
		for _, b := range raw[:512] {
			sum += int(b)
		}
		copy(raw[148:156], fmt.Sprintf("%06o\x00 ", sum))
		return raw
	}
	out := append(block("PaxHeaders/x", tar.TypeXHeader, records.String()), block("x", tar.TypeReg, text+strings.Repeat("\x00", 512-len(text)))...)
	return append(out, make([]byte, 1024)...)
}

// TestHolesAreNotUnpacked: an archive of a KiB fills no disk.
func TestHolesAreNotUnpacked(t *testing.T) {
	raw := holes(t, 9<<20)
	h, err := tar.NewReader(bytes.NewReader(raw)).Next()
	if err != nil || h.Size != 9<<20 || h.Typeflag != tar.TypeReg || len(raw) > 4096 {
		t.Fatalf("the archive has no hole: %+v, %v", h, err)
	}
	if err := Unpack(t.Context(), bytes.NewReader(raw), filepath.Join(t.TempDir(), "env")); err == nil || !strings.Contains(err.Error(), "holes") {
		t.Errorf("it was unpacked: %v", err)
	}
}

// FuzzUnpack: after an error, an archive leaves no files. Otherwise it becomes files, folders and
// links of no more bytes than the archive has.
func FuzzUnpack(f *testing.F) {
	f.Add(archived(f, tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "d/x", Typeflag: tar.TypeReg, Size: 3, Mode: 0o6755}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}))
	f.Add(archived(f, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../.."}, tar.Header{Name: "d/l/x", Typeflag: tar.TypeReg}))
	f.Add(holes(f, 99<<10))
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent := t.TempDir()
		err := Unpack(t.Context(), bytes.NewReader(raw), filepath.Join(parent, "env"))
		list, listErr := os.ReadDir(parent)
		if listErr != nil || err != nil && len(list) > 0 || err == nil && (len(list) != 1 || list[0].Name() != "env") {
			t.Fatalf("%v, and there are %v, %v", err, list, listErr)
		}
		if err != nil {
			return
		}
		var bytes int64
		must(t, filepath.WalkDir(parent, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			must(t, err)
			if mode := info.Mode(); mode&^(fs.ModePerm|fs.ModeDir|fs.ModeSymlink) != 0 {
				t.Fatalf("%s has the mode %s", path, mode)
			}
			if info.Mode().IsRegular() {
				bytes += info.Size()
			}
			return nil
		}))
		if bytes > int64(len(raw)) {
			t.Fatalf("an archive of %d bytes became %d", len(raw), bytes)
		}
	})
}

// FuzzReadPacked: an accepted text, written and read again, is the same value, within the limits.
func FuzzReadPacked(f *testing.F) {
	hash := strings.Repeat("ab", 32)
	f.Add([]byte(`{"hash":"` + hash + `","size":3,"python":"3.13.1","searchPath":"/opt/bin:/usr/bin","platform":"linux_x86_64","packages":["numpy-2.0 @ x"]}`))
	f.Add([]byte(`{"hash":"` + hash + `","size":-3,"python":"3\n","searchPath":"a"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadPacked(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		must(t, err)
		q, err := ReadPacked(again)
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v is written as %s and read as %+v, %v", p, again, q, err)
		}
		for _, word := range append([]string{p.Python, p.Platform, p.Hash}, p.Packages...) {
			if strings.ContainsAny(word, "\x00\x1b\n") {
				t.Fatalf("taken with %q", word)
			}
		}
	})
}
