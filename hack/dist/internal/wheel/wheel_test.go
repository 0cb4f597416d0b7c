package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/hack/dist/internal/archive"
)

func sample(t *testing.T) Wheel {
	program := filepath.Join(t.TempDir(), "muster")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho a program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Wheel{
		Project: "../../../../python", Program: program, Version: "0.1.0.dev3+gabc", Summary: "One line",
		Tags:     []string{"manylinux_2_17_x86_64", "manylinux2014_x86_64"},
		Licences: []archive.File{{Name: "LICENSE", Content: []byte("words")}}, Time: time.Unix(1_700_000_000, 0).UTC(),
	}
}

// open writes the wheel and reads it back.
func open(t *testing.T, w Wheel) (map[string]*zip.File, []byte) {
	t.Helper()
	var data bytes.Buffer
	if err := w.Write(&data); err != nil {
		t.Fatal(err)
	}
	read, err := zip.NewReader(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*zip.File{}
	for _, file := range read.File {
		files[file.Name] = file
	}
	return files, data.Bytes()
}

func content(t *testing.T, file *zip.File) []byte {
	t.Helper()
	if file == nil {
		t.Fatal("there is no such file")
	}
	in, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRecord compares RECORD with what is in the wheel, as pip does.
func TestRecord(t *testing.T) {
	w := sample(t)
	files, data := open(t, w)
	rows, err := csv.NewReader(bytes.NewReader(content(t, files[w.info()+"RECORD"]))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(files) {
		t.Errorf("RECORD has %d lines for %d files", len(rows), len(files))
	}
	for _, row := range rows {
		if row[0] == w.info()+"RECORD" {
			continue
		}
		text := content(t, files[row[0]])
		sum := sha256.Sum256(text)
		if want := "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]); row[1] != want || row[2] != strconv.Itoa(len(text)) {
			t.Errorf("RECORD says %q; want %s and %d bytes", row, want, len(text))
		}
	}
	if _, again := open(t, sample(t)); !bytes.Equal(data, again) {
		t.Error("the same files made two wheels")
	}
}

func TestContents(t *testing.T) {
	w := sample(t)
	files, _ := open(t, w)
	if got, want := w.Name(), "muster-0.1.0.dev3+gabc-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"; got != want {
		t.Errorf("it is called %s, want %s", got, want)
	}
	program := files["muster-0.1.0.dev3+gabc.data/scripts/muster"]
	if got := content(t, program); !bytes.HasPrefix(got, []byte("#!/bin/sh")) || program.Mode() != 0o755 {
		t.Errorf("the program is %q, with mode %s", got, program.Mode())
	}
	for _, name := range []string{"muster/__init__.py", "muster/py.typed", "muster/data/s3.py", w.info() + "licenses/LICENSE"} {
		if file := files[name]; file == nil || file.Mode() != 0o644 {
			t.Errorf("%s is missing, or not of mode 0644", name)
		}
	}
	for name := range files {
		if strings.Contains(name, "__pycache__") || strings.Contains(name, "egg-info") {
			t.Errorf("%s is in it", name)
		}
	}
	metadata := strings.Split(string(content(t, files[w.info()+"METADATA"])), "\n")
	for _, line := range []string{"Metadata-Version: 2.4", "Name: muster", "Version: 0.1.0.dev3+gabc", "Summary: One line", "License-Expression: Apache-2.0", "Requires-Python: >=3.9", "Requires-Dist: fsspec>=2023.6", "License-File: LICENSE"} {
		if !slices.Contains(metadata, line) {
			t.Errorf("METADATA has no line %q", line)
		}
	}
	if text := string(content(t, files[w.info()+"WHEEL"])); !strings.Contains(text, "Tag: py3-none-manylinux_2_17_x86_64\nTag: py3-none-manylinux2014_x86_64\n") || !strings.Contains(text, "Root-Is-Purelib: false\n") {
		t.Errorf("WHEEL says %q", text)
	}
	if text := string(content(t, files[w.info()+"entry_points.txt"])); text != "[fsspec.specs]\nmuster = muster.data.filesystem.MusterFileSystem\n" {
		t.Errorf("entry_points.txt says %q", text)
	}
}
