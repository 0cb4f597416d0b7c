//go:build dist

package dist

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/macho"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// folder is where the files of the release are.
func folder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MUSTER_DIST")
	if dir == "" {
		t.Fatal("MUSTER_DIST names no folder: run `make test-dist`")
	}
	return dir
}

// tries are what is tried of each part.
var tries = map[string]func(*testing.T){
	"licenses":           tryLicenses,
	"chart":              tryChart,
	"wheel":              tryWheel,
	"linux-amd64":        tryNVML,
	"linux-amd64-static": tryStatic,
	"linux-arm64":        tryARM,
	"darwin-amd64":       tryMac("darwin-amd64", macho.CpuAmd64),
	"darwin-arm64":       tryMac("darwin-arm64", macho.CpuArm64),
	"windows-amd64":      tryWindows,
	"image":              tryImage("", map[string]string{"amd64": "linux-amd64-static", "arm64": "linux-arm64"}),
	"image-amd64":        tryImage("-amd64", map[string]string{"amd64": "linux-amd64-static"}),
}

// TestParts tries the parts that were made.
func TestParts(t *testing.T) {
	parts := strings.Split(os.Getenv("MUSTER_DIST_PARTS"), ",")
	if slices.Equal(parts, []string{"all"}) { // the image for one architecture is none of them
		parts = slices.DeleteFunc(slices.Sorted(maps.Keys(tries)), func(part string) bool { return part == "image-amd64" })
	}
	for _, part := range parts {
		try, ok := tries[part]
		if !ok {
			t.Fatalf("MUSTER_DIST_PARTS has a part %q that no test knows", part)
		}
		t.Run(part, try)
	}
}

// one is the one file that matches a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s is %q, want one file (%v)", pattern, found, err)
	}
	return found[0]
}

// unpack unpacks an archive into a new folder and returns its one folder.
func unpack(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	var err error
	if strings.HasSuffix(path, ".zip") || strings.HasSuffix(path, ".whl") {
		err = unzip(path, dir)
	} else {
		err = untar(path, dir)
	}
	if err != nil {
		t.Fatalf("unpacking %s: %v", path, err)
	}
	if strings.HasSuffix(path, ".whl") {
		return dir
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Fatalf("%s holds %v, want one folder (%v)", path, entries, err)
	}
	return filepath.Join(dir, entries[0].Name())
}

func unzip(path, dir string) error {
	in, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	for _, file := range in.File {
		content, err := file.Open()
		if err == nil {
			err = keep(dir, file.Name, file.Mode(), content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func untar(path, dir string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	packed, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return err
	}
	in := tar.NewReader(packed)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = keep(dir, header.Name, fs.FileMode(header.Mode), in)
		}
		if err != nil {
			return err
		}
	}
}

func keep(dir, name string, mode fs.FileMode, content io.Reader) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("the archive has a file %q", name)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

// do runs a command and returns what it printed; it fails the test if the command
// does, with all words of it.
func do(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	// Also where the test has ended and cleans up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestChecksums compares SHA256SUMS with the files.
func TestChecksums(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder(t), "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	files, err := filepath.Glob(filepath.Join(folder(t), "muster-*"))
	if err != nil || len(files) == 0 || len(files) != len(sums) {
		t.Errorf("%d files and %d checksums: %v", len(files), len(sums), err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%x", sha256.Sum256(content)); sums[filepath.Base(path)] != want {
			t.Errorf("SHA256SUMS has %s for %s, want %s", sums[filepath.Base(path)], filepath.Base(path), want)
		}
	}
}
