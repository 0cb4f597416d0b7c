package osfile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/osfile"
)

func TestMain(m *testing.M) { os.Exit(rig.RunMounting(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deep nests folders in a folder, more than a path can name, with a file in the last one.
func deep(t *testing.T, dir string) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(t, err)
	for range 1000 {
		must(t, unix.Mkdirat(at, "folder", 0o700))
		next, err := unix.Openat(at, "folder", unix.O_DIRECTORY, 0)
		must(t, errors.Join(err, unix.Close(at)))
		at = next
	}
	file, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, errors.Join(err, unix.Close(file), unix.Close(at)))
}

// mark makes a file or folder immutable, if the file system knows that and the test may.
func mark(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer func() { _ = f.Close() }()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|unix.STATX_ATTR_IMMUTABLE)
	}
	if err != nil {
		t.Skipf("marking a file as immutable: %v", err)
	}
}

// TestClear: Clear removes everything that a program left in a folder, and nothing outside.
func TestClear(t *testing.T) {
	tests := map[string]func(t *testing.T, dir, outside string){
		"nothing":    func(*testing.T, string, string) {},
		"many files": func(t *testing.T, dir, _ string) { many(t, dir, 1500) },
		"many files below folders": func(t *testing.T, dir, _ string) {
			must(t, os.MkdirAll(dir+"/a/b/c", 0o700))
			many(t, dir+"/a/b", 1100)
		},
		"links that lead out": func(t *testing.T, dir, outside string) {
			must(t, errors.Join(os.Symlink(outside, dir+"/l"), os.Symlink("../outside", dir+"/m"), os.Symlink("/", dir+"/root"), os.Mkdir(dir+"/in", 0o700),
				os.Symlink(outside, dir+"/in/l")))
		},
		"a hard link": func(t *testing.T, dir, outside string) { must(t, os.Link(outside+"/kept", dir+"/l")) },
		"a pipe, a socket": func(t *testing.T, dir, _ string) {
			must(t, errors.Join(unix.Mkfifo(dir+"/p", 0), unix.Mknod(dir+"/s", unix.S_IFSOCK, 0)))
		},
		"folders without rights": func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.MkdirAll(dir+"/a/b", 0o700), os.WriteFile(dir+"/a/b/f", nil, 0), os.Chmod(dir+"/a/b", 0), os.Chmod(dir+"/a", 0o500)))
		},
		"folders too deep for a path": func(t *testing.T, dir, _ string) { deep(t, dir) },
		"immutable": func(t *testing.T, dir, _ string) {
			must(t, errors.Join(os.MkdirAll(dir+"/a/b", 0o700), os.WriteFile(dir+"/a/b/f", nil, 0o600)))
			mark(t, dir+"/a/b/f")
			mark(t, dir+"/a/b")
			mark(t, dir+"/a")
		},
		"names with strange characters": func(t *testing.T, dir, _ string) {
			for _, name := range []string{"\n", "-rf", "\xff", " ", "..."} {
				must(t, os.MkdirAll(filepath.Join(dir, name, name), 0o700))
			}
		},
	}
	for name, leave := range tests {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir, outside := top+"/dir", top+"/outside"
			must(t, errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(outside, 0o700), os.WriteFile(outside+"/kept", []byte("kept"), 0o600)))
			leave(t, dir, outside)
			must(t, osfile.Clear(t.Context(), dir))
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("%q stays", left)
			}
			leave(t, dir, outside)
			must(t, osfile.RemoveTree(t.Context(), dir))
			if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder stays: %v", err)
			}
			if text, err := os.ReadFile(outside + "/kept"); err != nil || string(text) != "kept" {
				t.Errorf("the file outside has %q, %v", text, err)
			}
		})
	}
}

func many(t *testing.T, dir string, files int) {
	t.Helper()
	for n := range files {
		must(t, os.WriteFile(filepath.Join(dir, strings.Repeat("x", 1+n%200)+strconv.Itoa(n)), nil, 0o600))
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestClearKeeps: kept entries stay, and so do mounts in the folder, on the same file
// system or another.
func TestClearKeeps(t *testing.T) {
	top := t.TempDir()
	dir, other := top+"/dir", top+"/other"
	must(t, errors.Join(os.MkdirAll(dir+"/image/in", 0o700), os.MkdirAll(dir+"/a/bound", 0o700), os.MkdirAll(dir+"/a/gone", 0o700), os.MkdirAll(dir+"/memory", 0o700),
		os.WriteFile(dir+"/file", nil, 0o600), os.Mkdir(other, 0o700), os.WriteFile(other+"/kept", nil, 0o600)))
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{{other, dir + "/a/bound", "", unix.MS_BIND}, {"tmpfs", dir + "/memory", "tmpfs", 0}, {other + "/kept", dir + "/file", "", unix.MS_BIND}} {
		must(t, unix.Mount(m.from, m.to, m.kind, m.flags, ""))
		t.Cleanup(func() { _ = unix.Unmount(m.to, unix.MNT_DETACH) })
	}
	must(t, os.WriteFile(dir+"/memory/kept", nil, 0o600))
	must(t, osfile.Clear(t.Context(), dir, "image"))
	if diff := cmp.Diff([]string{"a", "file", "image", "memory"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
	for _, at := range []string{dir + "/image/in", dir + "/a/bound/kept", dir + "/memory/kept", other + "/kept"} {
		if _, err := os.Lstat(at); err != nil {
			t.Error(err)
		}
	}
	if left := names(t, dir+"/a"); !slices.Equal(left, []string{"bound"}) {
		t.Errorf("beside the mount there is %q", left)
	}
	if err := osfile.RemoveTree(t.Context(), dir); err == nil {
		t.Error("a folder with mounts was removed")
	}
}

// TestClearEnds: Clear ends with its context, and returns that error.
func TestClearEnds(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/a", 0o700))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := osfile.Clear(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := osfile.Clear(t.Context(), dir+"/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := osfile.RemoveTree(t.Context(), dir+"/none"); err != nil {
		t.Errorf("got %v", err)
	}
}
