//go:build linux

package environment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/bundle"
	"github.com/muster-dev/muster/internal/osfile"
)

// benchFile says who builds an environment for an image, and since which start of the
// machine, in its home.
const benchFile = ".bench"

// ErrNotBuilt is wrapped by the error that says that nobody has built an environment.
var ErrNotBuilt = errors.New("this environment is not built on this machine")

// Bench is the folder in which somebody, for whom that stands in place of another
// folder, builds the environment of a key for an image, and of which the note comes
// last (package bundle). It is the same folder whenever they ask. What another one left
// there that did not come to its end is removed. An environment that is complete is
// nobody else's to build.
func (b *Builder) Bench(key, who string) (string, error) {
	if err := bundle.CheckKey(key); err != nil {
		return "", err
	}
	by, err := benchOf(who)
	if err != nil {
		return "", err
	}
	home := b.home(key)
	// Nobody but the owner comes as far as the folder but by a mount of it.
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("making room for the environment: %w", full(err))
	}
	held, err := lockHome(home, unix.LOCK_EX)
	if err != nil {
		return "", fmt.Errorf("making room for environment %s: %w", key, err)
	}
	defer func() { _ = held.Close() }()
	before, err := os.ReadFile(filepath.Join(home, benchFile))
	if err == nil && string(before) == by {
		return filepath.Join(home, venvDir), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("finding out who builds environment %s: %w", key, err)
	}
	if _, ok := readyAt(home); ok {
		return "", fmt.Errorf("environment %s is complete, and not to be built again", key)
	}
	return clearBench(home, by)
}

// benchOf is what the file of a bench says. What was written before the machine was
// started may not have reached the disk.
func benchOf(who string) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("finding out since when this machine runs: %w", err)
	}
	return who + "\n" + string(boot), nil
}

// clearBench makes an empty folder for who builds an environment. The file that says who
// that is comes last.
func clearBench(home, by string) (string, error) {
	path := filepath.Join(home, venvDir)
	for _, name := range []string{benchFile, markerFile, venvDir} {
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			return "", fmt.Errorf("removing an unfinished environment: %w", err)
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return "", fmt.Errorf("making room for the environment: %w", full(err))
	}
	if err := os.Chmod(path, 0o777); err != nil { // images have users of their own
		return "", fmt.Errorf("making room for the environment: %w", err)
	}
	if err := os.WriteFile(filepath.Join(home, benchFile), []byte(by), 0o600); err != nil {
		return "", fmt.Errorf("noting who builds the environment: %w", full(err))
	}
	return path, nil
}

// Built is what is said of an environment that was built for an image; the answer
// reserves it, as [Builder.Ensure] does. The error wraps [ErrNotBuilt] where there is
// none, or not all of it, and [bundle.ErrUnwanted] where what is said cannot be taken.
func (b *Builder) Built(key string) (bundle.Note, error) {
	if err := bundle.CheckKey(key); err != nil {
		return bundle.Note{}, err
	}
	home := b.home(key)
	if _, err := noteOf(home); err != nil {
		return bundle.Note{}, err
	}
	if _, ok := reserve(home, b.opts.Now()); !ok {
		if err := b.finish(home); err != nil {
			return bundle.Note{}, fmt.Errorf("finishing environment %s: %w", key, err)
		}
	}
	return noteOf(home)
}

// noteOf is the note of what was built in a home.
func noteOf(home string) (bundle.Note, error) {
	said, err := bundle.ReadNote(filepath.Join(home, venvDir))
	var disk *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bundle.Note{}, ErrNotBuilt
	case errors.As(err, &disk): // which may be well again
		return bundle.Note{}, err
	case err != nil:
		return bundle.Note{}, fmt.Errorf("%w: %w", bundle.ErrUnwanted, err)
	}
	return said, nil
}

// finish has what was built on a bench be complete, once, and reserves it.
func (b *Builder) finish(home string) error {
	held, err := lockHome(home, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	// 1. From here on nobody removes it, nor begins anew: is it still what it was?
	said, err := noteOf(home)
	if err != nil {
		return err
	}
	if !sinceStart(home) {
		return ErrNotBuilt
	}
	// 2. It is for reading.
	path := filepath.Join(home, venvDir)
	if err := os.Chmod(path, 0o755); err != nil {
		return err
	}
	// 3. Everything on disk before the marker says so, whose time reserves it.
	return markAt(home, marker{Path: path, Python: said.Python, Created: b.opts.Now().UTC(), Image: true})
}

// sinceStart says whether what is on a bench was written since the machine was started,
// or has reached the disk: a marker says that.
func sinceStart(home string) bool {
	if _, err := os.Lstat(filepath.Join(home, markerFile)); err == nil {
		return true // of a home that was moved
	}
	before, err := os.ReadFile(filepath.Join(home, benchFile))
	if err != nil {
		return false
	}
	who, _, _ := strings.Cut(string(before), "\n")
	by, err := benchOf(who)
	return err == nil && string(before) == by
}

// marker is written when an environment is complete.
type marker struct {
	// Path is where it was built: environments cannot be moved.
	Path    string    `json:"path"`
	Python  string    `json:"python"`
	Created time.Time `json:"created"`
	// Image says that its Python is that of an image: nothing of this machine runs it.
	Image bool `json:"image,omitempty"`
}

// markAt writes the marker of an environment, after all else has reached the disk.
func markAt(home string, m marker) error {
	dir, err := os.Open(home)
	if err != nil {
		return fmt.Errorf("finishing the environment: %w", err)
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("finishing the environment: %w", full(err))
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("finishing the environment: %w", err)
	}
	if err := osfile.Replace(filepath.Join(home, markerFile), data, 0o644); err != nil {
		return fmt.Errorf("finishing the environment: %w", full(err))
	}
	return nil
}

// sameFolder says whether an environment is where it was built, which it holds the path of:
// maybe by a link, to a larger disk or to what several programs share. A builder resolves links
// first; those of earlier versions did not.
func sameFolder(built, path string) bool {
	if built == path {
		return true
	}
	was, err := os.Stat(built)
	if err != nil {
		return false
	}
	is, err := os.Stat(path)
	return err == nil && os.SameFile(was, is)
}

// readyAt says whether the environment of a home is complete, and where it is.
func readyAt(home string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(home, markerFile))
	if err != nil {
		return "", false
	}
	var m marker
	path := filepath.Join(home, venvDir)
	if json.Unmarshal(data, &m) != nil || !sameFolder(m.Path, path) {
		return "", false
	}
	if m.Image { // whose Python is nowhere but in the image
		info, err := os.Lstat(filepath.Join(path, bundle.NoteFile))
		return path, err == nil && info.Mode().IsRegular()
	}
	return path, executable(filepath.Join(path, "bin", "python"))
}
