package enclosure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestSplitOptions(t *testing.T) {
	flags, data := splitOptions([]string{"index=off", "rw", "nosuid", "lowerdir=/a:/b", "rbind", "ro"})
	if want := uintptr(unix.MS_NOSUID | unix.MS_BIND | unix.MS_REC | unix.MS_RDONLY); flags != want {
		t.Errorf("flags %x, want %x", flags, want)
	}
	if diff := cmp.Diff([]string{"index=off", "lowerdir=/a:/b"}, data); diff != "" {
		t.Error(diff)
	}
}

func TestShorten(t *testing.T) {
	var folders []string
	for i := range 127 {
		folders = append(folders, fmt.Sprintf("/var/lib/containerd/snapshotter/snapshots/%d/fs", i))
	}
	long := []string{"upperdir=/u", "lowerdir=" + strings.Join(folders, ":"), "workdir=/w"}
	folder, data := shorten(long)
	if folder != "/var/lib/containerd/snapshotter/snapshots" {
		t.Errorf("from %q", folder)
	}
	all := strings.Join(data, ",")
	if len(all) > optionLimit || !strings.HasPrefix(all, "upperdir=/u,lowerdir=0/fs:1/fs:") || !strings.HasSuffix(all, ":126/fs,workdir=/w") {
		t.Errorf("%d bytes: %s", len(all), all)
	}
	for name, options := range map[string][]string{
		"short":             {"lowerdir=/a:/b", "upperdir=/u"},
		"nothing in common": {"lowerdir=/a/" + strings.Repeat("x", 5000) + ":/b"},
		"no lower folder":   {strings.Repeat("x", 5000)},
	} {
		folder, data := shorten(options)
		if folder != "" || cmp.Diff(options, data) != "" {
			t.Errorf("%s: became %q in %q", name, data, folder)
		}
	}
}

func TestMakePlace(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(root, "dev")); err != nil {
		t.Fatal(err)
	}
	if err := makePlace(filepath.Join(root, "dev")); err == nil || !strings.Contains(err.Error(), "/dev") {
		t.Errorf("a link that leads out of the tree was taken: %v", err)
	}
	for range 2 {
		if err := makePlace(filepath.Join(root, "proc")); err != nil {
			t.Error(err)
		}
	}
}
