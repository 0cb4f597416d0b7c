package volumeclaim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFolderOfAnOwner: a volume of a user's namespace is the user's alone, and a folder of another user is
// not given away.
func TestFolderOfAnOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root: it gives folders to users")
	}
	f := folders{filepath.Join(t.TempDir(), "volumes")}
	uid, other := uint32(61234), uint32(61333)
	for range 2 {
		path, err := f.create("u-61234/data-1", &uid)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != uid || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder has the mode %v and the user %d", info.Mode(), stat.Uid)
		}
	}
	if _, err := f.create("u-61234/data-1", &other); err == nil {
		t.Error("a folder of one user was given to another one")
	}
	// A Muster of one user made it.
	path, err := f.create("u-61234/data-2", nil)
	must(t, err)
	_, err = f.create("u-61234/data-2", &uid)
	must(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %v, error %v", info.Mode(), err)
	}
	must(t, f.remove(path))
	if exists(path) {
		t.Error("the folder is left")
	}
}
