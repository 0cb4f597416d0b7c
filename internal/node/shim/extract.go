package shim

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The binary is built before muster is (make build); without it the folder
// holds a placeholder alone.
//
//go:embed all:bin
var bin embed.FS

// The embedded files' names, and the beginnings of their names on disk.
const (
	binary       = "muster-shim"
	workerBinary = "muster-worker"
)

// ErrMissing says that this muster carries no shim, or no worker.
var ErrMissing = errors.New("this muster was built without the programs inside it: build it with make build")

// Extract puts the shim's binary into a folder, which it creates where missing,
// under a name that holds the content's hash, and returns its path. A file that
// is there already and whole is left alone, so that shims of several builds
// live side by side. It returns ErrMissing where there is no binary to extract.
func Extract(dir string) (path string, err error) { return extractOwn(dir, binary) }

// ExtractWorker does the same with the program that workers of pipelines are in
// images: static like the shim, since an image may have no library.
func ExtractWorker(dir string) (path string, err error) { return extractOwn(dir, workerBinary) }

func extractOwn(dir, binary string) (string, error) {
	content, err := bin.ReadFile("bin/" + binary)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrMissing
	}
	if err != nil {
		return "", fmt.Errorf("reading the embedded %s: %w", binary, err)
	}
	return extract(dir, binary, content)
}

func extract(dir, binary string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	path := filepath.Join(dir, binary+"-"+hex.EncodeToString(sum[:8]))
	if intact(path, content) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("extracting "+binary+": %w", err)
	}
	temporary, err := os.CreateTemp(dir, binary+"-*.new")
	if err != nil {
		return "", fmt.Errorf("extracting "+binary+": %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // no error: it has its name by then
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Chmod(0o755)
	}
	if err == nil {
		// A torn binary after a crash would pass for whole until it is read.
		err = temporary.Sync()
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("extracting "+binary+": %w", err)
	}
	if !intact(path, content) {
		return "", fmt.Errorf("extracting "+binary+": %s does not hold what was written to it", path)
	}
	return path, nil
}

// intact says whether a file is there, whole and executable.
func intact(path string, content []byte) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || info.Size() != int64(len(content)) {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && bytes.Equal(data, content)
}
