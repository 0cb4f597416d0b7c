package userfiles_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/userfiles"
)

// put makes a file of ada's with this many bytes.
func put(t *testing.T, path string, bytes int) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, make([]byte, bytes), 0o600))
}

// give makes everything below a folder ada's.
func give(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(ada.UID), int(ada.GID)))
	}))
}

// TestMeasure: a file with two names counts once, a closed folder is opened, and a mount is not entered.
func TestMeasure(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o700)
	at := userfiles.Place{Base: dir, OneMount: true}
	put(t, dir+"/a/file", 64<<10)
	put(t, dir+"/closed/deep/file", 64<<10)
	must(t, errors.Join(os.Link(dir+"/a/file", dir+"/a/again"), os.Symlink("/", dir+"/a/link"), os.Mkdir(dir+"/mount", 0o700)))
	give(t, dir)
	must(t, os.Chmod(dir+"/closed", 0))
	must(t, unix.Mount("tmpfs", dir+"/mount", "tmpfs", 0, ""))
	defer func() { must(t, unix.Unmount(dir+"/mount", 0)) }()
	put(t, dir+"/mount/other", 64<<10)
	got, err := h.As(ada).Measure(t.Context(), at)
	must(t, err)
	// The folder, a, file, link, closed, deep and its file.
	if got.Files != 7 || got.Bytes < 128<<10 || got.Bytes > 192<<10 || got.Partial {
		t.Errorf("%+v", got)
	}
	single, err := h.As(ada).Measure(t.Context(), at.Join("a", "file"))
	if err != nil || single.Files != 1 || single.Bytes < 64<<10 {
		t.Errorf("a file: %+v, %v", single, err)
	}
	if _, err := h.As(eve).Measure(t.Context(), at); !errors.Is(err, os.ErrPermission) {
		t.Errorf("another user: %v", err)
	}
	deep := strings.Repeat("d/", 600)
	must(t, os.MkdirAll(dir+"/"+deep, 0o700))
	give(t, dir+"/d")
	if got, err := h.As(ada).Measure(t.Context(), at); err != nil || !got.Partial {
		t.Errorf("folders that lie deep: %+v, %v", got, err)
	}
}

// TestScan lists a tree in parts.
func TestScan(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o700)
	for i := range 70 {
		put(t, fmt.Sprintf("%s/%d/model.pt", dir, i), i)
	}
	must(t, os.Symlink("/etc", dir+"/link"))
	give(t, dir)
	long := time.Unix(1_000_000_000, 0)
	must(t, os.Chtimes(dir+"/5/model.pt", long, long))
	at := userfiles.Place{Base: dir, OneMount: true}
	seen := map[string]userfiles.Scanned{}
	var calls int
	for skip, more := 0, true; more; calls++ {
		var list []userfiles.Scanned
		var err error
		list, more, err = h.As(ada).Scan(t.Context(), at, skip, 50)
		must(t, err)
		for _, e := range list {
			seen[e.Path] = e
		}
		skip += len(list)
	}
	if len(seen) != 141 || calls != 3 {
		t.Errorf("%d entries in %d calls", len(seen), calls)
	}
	file, info := seen["5/model.pt"], unix.Stat_t{}
	must(t, unix.Stat(dir+"/5/model.pt", &info))
	if !file.Regular || file.Size != 5 || file.Changed != long.UnixNano() || file.Inode != info.Ino || file.Device != info.Dev {
		t.Errorf("%+v", file)
	}
	if link := seen["link"]; link.Regular {
		t.Errorf("%+v", link)
	}
	if slices.ContainsFunc([]string{"link/passwd"}, func(name string) bool { _, is := seen[name]; return is }) {
		t.Error("a link was followed")
	}
	if _, _, err := h.As(eve).Scan(t.Context(), at, 0, 50); !errors.Is(err, os.ErrPermission) {
		t.Errorf("another user: %v", err)
	}
}
