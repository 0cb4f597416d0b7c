package parcel

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRead: for each stream, Read writes nothing outside of the folder or under another name, no
// more than the limits or than the stream has, and no link that leads out.
func FuzzRead(f *testing.F) {
	add := func(headers ...tar.Header) {
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		for _, h := range append(headers, tar.Header{Name: end, Typeflag: tar.TypeReg}) {
			if err := w.WriteHeader(&h); err != nil {
				f.Fatal(err)
			}
			if _, err := w.Write(make([]byte, h.Size)); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(raw.Bytes())
	}
	add(tar.Header{Name: "out/", Typeflag: tar.TypeDir}, tar.Header{Name: "out/a", Typeflag: tar.TypeReg, Size: 3, Mode: 0o6755}, tar.Header{Name: "out/l", Typeflag: tar.TypeSymlink, Linkname: "a"}, tar.Header{Name: "log", Typeflag: tar.TypeReg})
	add(tar.Header{Name: "out/l", Typeflag: tar.TypeSymlink, Linkname: "d/e"}, tar.Header{Name: "out/d/e/x", Typeflag: tar.TypeReg}, tar.Header{Name: "out/z", Typeflag: tar.TypeSymlink, Linkname: "l/../../x"})
	f.Fuzz(func(t *testing.T, raw []byte) {
		outside := t.TempDir()
		inside := filepath.Join(outside, "inside")
		if err := os.Mkdir(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		limits := Limits{Bytes: 4096, Entries: 8, Links: 256}
		// An error leaves what came before: all of it is looked at in either case.
		failed := Read(bytes.NewReader(raw), inside, limits, "log", "out") != nil
		if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
			t.Fatalf("it wrote outside: %v, %v", list, err)
		}
		var bytes int64
		err := filepath.WalkDir(inside, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || path == inside {
				return err
			}
			name := strings.TrimPrefix(path, inside+"/")
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			if top, _, _ := strings.Cut(name, "/"); top != "log" && top != "out" {
				t.Fatalf("it laid out %q", name)
			}
			switch mode := info.Mode(); {
			case mode&^(fs.ModePerm|fs.ModeDir|fs.ModeSymlink) != 0:
				t.Fatalf("%q has the mode %s", name, mode)
			case mode.IsRegular():
				bytes += info.Size()
			case mode&fs.ModeSymlink != 0 && !failed:
				if target, err := filepath.EvalSymlinks(path); err == nil && target != inside && !strings.HasPrefix(target, inside+"/") {
					t.Fatalf("%q leads to %s", name, target)
				}
			}
			return nil
		})
		if err != nil || bytes > limits.Bytes || bytes > int64(len(raw)) {
			t.Fatalf("%d bytes became %d, %v", len(raw), bytes, err)
		}
	})
}
