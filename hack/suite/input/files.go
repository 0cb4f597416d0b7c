package input

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// File returns the digest of a file's content.
func File(path string) (string, error) {
	sum := sha256.New()
	if err := addFile(sum, path); err != nil {
		return "", err
	}
	return text(sum), nil
}

// Tracked returns the paths below root, relative to it, that git tracks, or would if they were
// added: what a clone of the working tree has.
func Tracked(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the files of the repository: %w", err)
	}
	paths := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// Files returns the digest of the names, modes and contents of files below root.
func Files(root string, paths []string) (string, error) {
	sum := sha256.New()
	for _, path := range paths {
		full := filepath.Join(root, path)
		info, err := os.Lstat(full)
		if os.IsNotExist(err) {
			continue // removed, but not yet for git
		}
		if err != nil {
			return "", fmt.Errorf("reading an input: %w", err)
		}
		_, _ = fmt.Fprintf(sum, "%q %o %d\n", path, info.Mode(), info.Size())
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(full)
			if err != nil {
				return "", fmt.Errorf("reading an input: %w", err)
			}
			_, _ = fmt.Fprintf(sum, "%q\n", target)
		case info.Mode().IsRegular():
			if err := addFile(sum, full); err != nil {
				return "", err
			}
		}
	}
	return text(sum), nil
}

// Observe has Go's cache of test results know that a test depends on files and on the names in
// their folders, which its child processes read: it asks for the state of each. Tests call it.
func Observe(root string, paths []string) error {
	folders := map[string]bool{}
	for _, path := range paths {
		if _, err := os.Lstat(filepath.Join(root, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking at a file that a test depends on: %w", err)
		}
		for folder := filepath.Dir(path); !folders[folder]; folder = filepath.Dir(folder) {
			folders[folder] = true
			if _, err := os.ReadDir(filepath.Join(root, folder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("looking at a folder that a test depends on: %w", err)
			}
		}
	}
	return nil
}

// Below are the paths that are one of the folders or files, or below one.
func Below(paths []string, folders ...string) []string {
	var below []string
	for _, path := range paths {
		if slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") }) {
			below = append(below, path)
		}
	}
	return below
}

// Ending are the paths that end in one of the endings.
func Ending(paths []string, endings ...string) []string {
	var found []string
	for _, path := range paths {
		if slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(path, e) }) {
			found = append(found, path)
		}
	}
	return found
}

// Except are the paths that are not in others.
func Except(paths, others []string) []string {
	left := map[string]bool{}
	for _, path := range others {
		left[path] = true
	}
	var found []string
	for _, path := range paths {
		if !left[path] {
			found = append(found, path)
		}
	}
	return found
}

func addFile(sum hash.Hash, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading an input: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("reading an input: %w", err)
	}
	return nil
}

func text(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil))[:32] }
