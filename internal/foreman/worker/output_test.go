package worker

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCheckOutput(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"nothing":     {func(string) error { return nil }, ""},
		"a file":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), nil, 0o600) }, ""},
		"a folder":    {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700) }, ""},
		"a link":      {func(dir string) error { return os.Symlink("f", filepath.Join(dir, "l")) }, ""},
		"a link out":  {func(dir string) error { return os.Symlink("../in/f", filepath.Join(dir, "l")) }, "l"},
		"a link to /": {func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "l")) }, "/etc/passwd"},
		"a link out over another link": {func(dir string) error {
			err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755)
			return errors.Join(err, os.Symlink("../..", filepath.Join(dir, "a/b/up")), os.Symlink("a/b/up/../in", filepath.Join(dir, "z")))
		}, "out of the tree over another link"},
		"a name of ours":   {func(dir string) error { return os.WriteFile(filepath.Join(dir, ".muster-partial-1"), nil, 0o600) }, "is reserved"},
		"no output":        {os.Remove, "looking at what it wrote"},
		"a file as output": {func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, "it put a file in the place of the folder for its output"},
		"a link as output": {func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink("/etc", dir)) }, "it put a symbolic link in the place"},
		"a pipe as output": {func(dir string) error { return errors.Join(os.Remove(dir), syscall.Mkfifo(dir, 0o600)) }, "it put a pipe in the place"},
		"a pipe":           {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "p"), 0o600) }, "it wrote p, which is a pipe"},
		"a socket":         {func(dir string) error { return socket(t, filepath.Join(dir, "s")) }, "it wrote s, which is a socket"},
		"a device":         {func(dir string) error { return null(filepath.Join(dir, "d")) }, "it wrote d, which is a device"},
	} {
		dir := t.TempDir()
		err := os.Mkdir(filepath.Join(dir, "out"), 0o755)
		if err == nil {
			err = c.make(filepath.Join(dir, "out"))
		}
		if errors.Is(err, unix.EPERM) {
			continue // who may not make devices writes none
		}
		if err != nil {
			t.Fatal(err)
		}
		err = CheckOutput(filepath.Join(dir, "out"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// null makes a device like /dev/null.
func null(path string) error {
	return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
}

// socket makes a socket that nobody listens at.
func socket(t *testing.T, path string) error {
	short := filepath.Join(t.TempDir(), "s") // an address is of 108 bytes at most
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", short)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return errors.Join(l.Close(), os.Rename(short, path))
}
