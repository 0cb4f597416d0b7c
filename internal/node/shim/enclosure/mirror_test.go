package enclosure

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMirror lays an empty folder over one with files, links, a pipe and a mount, while a link
// is in the place of one of them.
func TestMirror(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	tr := &tree{root: root, private: map[string]bool{}}
	folder := filepath.Join(root, "run", "service")
	mounted := filepath.Join(folder, "mounted")
	must(t, errors.Join(os.MkdirAll(filepath.Join(folder, "sub"), 0o755), os.Mkdir(mounted, 0o755), os.WriteFile(outside, []byte("outside"), 0o600)))
	must(t, errors.Join(
		os.WriteFile(filepath.Join(folder, "file"), []byte("1"), 0o644), os.WriteFile(filepath.Join(folder, "sub", "file"), []byte("2"), 0o644),
		os.Symlink(outside, filepath.Join(folder, "link")), os.Symlink("nowhere", filepath.Join(folder, "dangling")), unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600),
		os.Chmod(folder, 0o711),
	))
	must(t, unix.Mount("inner", mounted, "tmpfs", 0, ""))
	t.Cleanup(func() {
		for range 3 { // the mirrored mount, the mirror, the mount
			_ = unix.Unmount(mounted, unix.MNT_DETACH)
			_ = unix.Unmount(folder, unix.MNT_DETACH)
		}
	})
	must(t, os.WriteFile(filepath.Join(mounted, "file"), []byte("3"), 0o644))
	must(t, tr.mirror(folder))
	for name, want := range map[string]string{"file": "1", "sub/file": "2", "mounted/file": "3"} {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"link": outside, "dangling": "nowhere"} {
		if got, err := os.Readlink(filepath.Join(folder, name)); err != nil || got != want {
			t.Errorf("%s leads to %q, %v; want %q", name, got, err, want)
		}
	}
	if info, err := os.Lstat(filepath.Join(folder, "pipe")); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v, %v", info, err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the folder has %v, %v", info, err)
	}
	// A new file is not in the folder below.
	must(t, os.WriteFile(filepath.Join(folder, "new"), nil, 0o600))
	must(t, unix.Unmount(folder, unix.MNT_DETACH))
	if _, err := os.Lstat(filepath.Join(folder, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder below has it: %v", err)
	}
	// The folder is gone, and a link is in its place.
	must(t, unix.Unmount(mounted, unix.MNT_DETACH))
	must(t, errors.Join(os.Rename(folder, folder+".away"), os.Symlink(filepath.Dir(outside), folder)))
	if err := tr.mirror(folder); !errors.Is(err, errReplaced) {
		t.Errorf("a link was followed: %v", err)
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "outside" {
		t.Errorf("the file outside has %q, %v", text, err)
	}
}
