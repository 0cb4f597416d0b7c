package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var at = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

// read is a file as an archive holds it.
type read struct {
	Mode    fs.FileMode
	Content string
	Time    time.Time
}

var want = map[string]read{
	"muster-1/muster":  {0o755, "a program", at},
	"muster-1/LICENSE": {0o644, "words", at},
}

func files(t *testing.T) []File {
	program := filepath.Join(t.TempDir(), "program")
	// Whatever its mode here is, the archive says.
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []File{{Name: "muster-1/muster", From: program, Executable: true}, {Name: "muster-1/LICENSE", Content: []byte("words")}}
}

func TestTarGz(t *testing.T) {
	data := twice(t, func(out io.Writer, files []File) error { return TarGz(out, files, at) })
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	got, in := map[string]read{}, tar.NewReader(unpacked)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d:%d %q", header.Name, header.Uid, header.Gid, header.Uname)
		}
		got[header.Name] = read{fs.FileMode(header.Mode), string(content), header.ModTime.UTC()}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestZip(t *testing.T) {
	data := twice(t, func(out io.Writer, files []File) error { return Zip(out, files, at) })
	in, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]read{}
	for _, file := range in.File {
		opened, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		got[file.Name] = read{file.Mode(), string(content), file.Modified.UTC()}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMissingFile wants the name of a file that is not there in the error.
func TestMissingFile(t *testing.T) {
	err := TarGz(io.Discard, []File{{Name: "muster", From: "/nowhere/muster"}}, at)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := Zip(io.Discard, []File{{Name: "muster", From: "/nowhere/muster"}}, at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// twice writes the same files, from two places, and wants the same bytes.
func twice(t *testing.T, write func(io.Writer, []File) error) []byte {
	t.Helper()
	var one, two bytes.Buffer
	if err := errors.Join(write(&one, files(t)), write(&two, files(t))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same files made two archives")
	}
	return one.Bytes()
}
