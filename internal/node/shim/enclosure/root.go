package enclosure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// ownTree says whether the container has a tree of its own instead of the
// host's.
func (t *tree) ownTree() bool { return len(t.Isolation.Root) > 0 }

// mountRoot mounts the container's own tree, with what every program expects
// of a machine: places for /proc and /dev, which are made later, and /sys.
func (t *tree) mountRoot() error {
	for _, m := range t.Isolation.Root {
		mount := func() error { return mountAs(m, t.root) }
		if t.namespace != nil {
			mount = func() error { return t.mountMapped(m) }
		}
		if err := mount(); err != nil {
			return fmt.Errorf("mounting %s as the container's tree: %w", m.Type, err)
		}
	}
	if t.confines() {
		// The image's owner may have put device files into it.
		if err := restrict(t.root, unix.MOUNT_ATTR_NODEV); err != nil {
			return fmt.Errorf("disabling the device files of the container's tree: %w", err)
		}
	}
	if err := t.own(t.root); err != nil {
		return err
	}
	for _, name := range []string{"proc", "dev", "sys"} {
		if err := t.makePlace(name); err != nil {
			return err
		}
	}
	return t.showSys()
}

// makePlace makes a folder that something is mounted at. A link there would
// lead out of the tree.
func makePlace(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Mkdir(path, 0o755)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("the image has a file or a link at /%s, where a folder must be", filepath.Base(path))
	}
	return nil
}

// showSys shows the machine's /sys, as a container may read it.
func (t *tree) showSys() error {
	target := filepath.Join(t.root, "sys")
	if err := bind("/sys", target); err != nil {
		return fmt.Errorf("binding /sys: %w", err)
	}
	points, err := mountPoints()
	if err != nil {
		return err
	}
	for _, point := range points {
		if !within(point, target) {
			continue
		}
		if err := restrict(point, unix.MOUNT_ATTR_RDONLY); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("making /sys read-only: %w", err)
		}
	}
	return nil
}

// seal refuses writes to the container's own tree, once nothing needs to be
// created there any more.
func (t *tree) seal() error {
	if !t.ownTree() || !t.Isolation.ReadOnlyRoot {
		return nil
	}
	return restrict(t.root, unix.MOUNT_ATTR_RDONLY)
}

// mountFlags are the options that are flags and not the file system's own.
var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"sync": unix.MS_SYNCHRONOUS, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME,
	"relatime": unix.MS_RELATIME, "strictatime": unix.MS_STRICTATIME,
	"bind": unix.MS_BIND, "rbind": unix.MS_BIND | unix.MS_REC,
}

// splitOptions tells flags from what the file system is told. Flags that say
// what is so anyway are left out.
func splitOptions(options []string) (flags uintptr, data []string) {
	for _, o := range options {
		flag, known := mountFlags[o]
		switch {
		case known:
			flags |= flag
		case o == "rw" || o == "suid" || o == "dev" || o == "exec" || o == "defaults":
		default:
			data = append(data, o)
		}
	}
	return flags, data
}

// mountAs mounts m at target.
func mountAs(m contract.RootMount, target string) error {
	flags, data := splitOptions(m.Options)
	if m.Type == "overlay" {
		folder, shorter := shorten(data)
		if folder != "" {
			if err := unix.Chdir(folder); err != nil {
				return err
			}
		}
		data = shorter
	}
	kind := m.Type
	if flags&unix.MS_BIND != 0 {
		kind = ""
	}
	if err := unix.Mount(m.Source, target, kind, flags, strings.Join(data, ",")); err != nil {
		return err
	}
	if flags&unix.MS_BIND != 0 && flags&unix.MS_RDONLY != 0 {
		return restrict(target, unix.MOUNT_ATTR_RDONLY) // a bind ignores it
	}
	return nil
}

// optionLimit is how much a file system can be told: a page, with its end.
const optionLimit = 4095

// shorten writes an overlay's lower folders relative to the folder that they
// have in common, from which it then has to be mounted, where all of them
// would be longer than the kernel reads. An image has up to 127 of them.
func shorten(data []string) (folder string, shorter []string) {
	if len(strings.Join(data, ",")) <= optionLimit {
		return "", data
	}
	for i, option := range data {
		list, ok := strings.CutPrefix(option, "lowerdir=")
		if !ok {
			continue
		}
		folders := strings.Split(list, ":")
		common := filepath.Dir(folders[0])
		for _, f := range folders {
			for common != "/" && !strings.HasPrefix(f, common+"/") {
				common = filepath.Dir(common)
			}
		}
		if common == "/" {
			return "", data
		}
		for j, f := range folders {
			folders[j] = strings.TrimPrefix(f, common+"/")
		}
		shorter = append(shorter, data...)
		shorter[i] = "lowerdir=" + strings.Join(folders, ":")
		return common, shorter
	}
	return "", data
}
