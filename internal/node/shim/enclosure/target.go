package enclosure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/osfile"
)

// linkLimit bounds the symbolic links followed in one path, as the kernel does.
const linkLimit = 40

// resolve follows target inside the new root. It returns the deepest folder or
// file that exists, as a path of the host, and the names that do not exist
// below it.
func (t *tree) resolve(target string) (existing string, missing []string, err error) {
	existing = t.root
	names := split(target)
	for links := 0; len(names) > 0; {
		name := names[0]
		if name == ".." {
			if existing != t.root {
				existing = filepath.Dir(existing)
			}
			names = names[1:]
			continue
		}
		next := filepath.Join(existing, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return existing, names, nil
		}
		if err != nil {
			return "", nil, err
		}
		names = names[1:]
		if info.Mode()&os.ModeSymlink == 0 {
			existing = next
			continue
		}
		if links++; links > linkLimit {
			return "", nil, fmt.Errorf("following %s: more than %d symbolic links", target, linkLimit)
		}
		link, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if filepath.IsAbs(link) {
			existing = t.root
		}
		names = append(split(link), names...)
	}
	return existing, nil, nil
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// ensure makes a target exist, as a folder or a file, without touching the
// host. It returns where it is, and opens it.
func (t *tree) ensure(target string, isDir bool) (string, *os.File, error) {
	existing, missing, err := t.resolve(target)
	if err != nil {
		return "", nil, err
	}
	path := existing
	var at *os.File
	if len(missing) == 0 {
		at, err = t.open(path)
	} else {
		path = filepath.Join(existing, filepath.Join(missing...))
		at, err = t.make(target, existing, missing, isDir)
	}
	if err != nil {
		return "", nil, err
	}
	info, err := at.Stat()
	if err == nil && info.IsDir() != isDir {
		err = fmt.Errorf("the source is a %s and the target is a %s", kind(isDir), kind(info.IsDir()))
	}
	if err != nil {
		_ = at.Close()
		return "", nil, err
	}
	return path, at, nil
}

// make creates the missing names below a folder, the last one as a folder or a file, and opens it.
func (t *tree) make(target, existing string, missing []string, isDir bool) (*os.File, error) {
	info, err := os.Lstat(existing)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is no folder", strings.TrimPrefix(existing, t.root))
	case slices.Contains(missing, ".."):
		return nil, fmt.Errorf("%q leads through a folder that does not exist", target)
	}
	if err := t.makeWritable(existing); err != nil {
		return nil, err
	}
	at, err := t.open(existing) // anew: another layer may lie over it now
	if err != nil {
		return nil, err
	}
	for i, name := range missing {
		next, err := t.create(at, name, isDir || i < len(missing)-1)
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func kind(isDir bool) string {
	if isDir {
		return "folder"
	}
	return "file"
}

// makeWritable sees to it that what is created in folder, which lies inside the
// new root, is the container's alone.
func (t *tree) makeWritable(folder string) error {
	id, err := t.mountID(folder)
	if err != nil {
		return err
	}
	if t.private[id] {
		return nil
	}
	inside := strings.TrimPrefix(folder, t.root)
	if t.ownTree() {
		err = t.overlay(folder, inside)
	} else if within(inside, "/run") {
		err = t.mirror(folder)
	} else if err = t.overlay(folder, inside); err != nil {
		// The file system that holds the state may not carry an overlay.
		err = t.mirror(folder)
	}
	if err != nil {
		return fmt.Errorf("making room in %s: %w", inside, err)
	}
	return t.own(folder)
}

// own records that the mount at folder is writable and the container's own.
func (t *tree) own(folder string) error {
	id, err := t.mountID(folder)
	t.private[id] = err == nil
	return err
}

// mountID is the kernel's number of the mount that a path of the new root lies on.
func (t *tree) mountID(path string) (string, error) {
	at, err := t.open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = at.Close() }()
	info := "/proc/self/fdinfo/" + strconv.Itoa(int(at.Fd()))
	data, err := os.ReadFile(info)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("reading %s: no mnt_id in it", info)
}

// mirror lays an empty folder over one and binds its entries back.
func (t *tree) mirror(folder string) error {
	at, err := t.open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	info, err := at.Stat()
	if err != nil {
		return err
	}
	empty, err := newTmpfs(info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { _ = empty.Close() }()
	if err := unix.MoveMount(int(empty.Fd()), "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return err
	}
	return bindEntries(at, empty) // the folder below the new mount
}

// newTmpfs makes an empty file system in memory that is mounted nowhere, and opens its root.
func newTmpfs(mode fs.FileMode) (*os.File, error) {
	settings, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a tmpfs, which needs Linux 5.2: %w", err)
	}
	defer func() { _ = unix.Close(settings) }()
	for _, setting := range [][2]string{{"source", "muster"}, {"mode", strconv.FormatUint(uint64(mode), 8)}} {
		if err := unix.FsconfigSetString(settings, setting[0], setting[1]); err != nil {
			return nil, fmt.Errorf("making a tmpfs: %w", err)
		}
	}
	if err := unix.FsconfigCreate(settings); err != nil {
		return nil, fmt.Errorf("making a tmpfs: %w", err)
	}
	mount, err := unix.Fsmount(settings, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("making a tmpfs: %w", err)
	}
	return os.NewFile(uintptr(mount), "tmpfs"), nil
}

// overlay lays a writable layer over folder and puts back what the host has
// mounted below it, which an overlay hides.
func (t *tree) overlay(folder, inside string) error {
	base := filepath.Join(t.State, contract.OverlayFolder, strconv.Itoa(t.overlays))
	t.overlays++
	upper, work := filepath.Join(base, "upper"), filepath.Join(base, "work")
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	lower, err := t.open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = lower.Close() }()
	info, err := lower.Stat()
	if err != nil {
		return err
	}
	if err := os.Chmod(upper, info.Mode().Perm()|info.Mode()&os.ModeSticky); err != nil {
		return err
	}
	if stat, ok := fileOwner(info); ok {
		if err := os.Chown(upper, stat.uid, stat.gid); err != nil {
			return err
		}
	}
	// The kernel splits the options at commas and colons; the folders go by
	// number instead of by name.
	var fds [2]int
	for i, d := range []string{upper, work} {
		if fds[i], err = unix.Open(d, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		defer func() { _ = unix.Close(fds[i]) }()
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d", byNumber(lower), fds[0], fds[1])
	if err := unix.Mount("overlay", byNumber(lower), "overlay", 0, options); err != nil {
		return err
	}
	var bound string // an outer one brings the inner ones along
	for _, point := range t.host {
		if point == inside || !within(point, inside) || bound != "" && within(point, bound) {
			continue
		}
		bound = point
		if err := t.bindAgain(point); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("binding %s again: %w", point, err)
		}
	}
	return nil
}

// bindAgain mounts a mount of the host at its own place in the new root.
func (t *tree) bindAgain(point string) error {
	source, err := openAt(unix.AT_FDCWD, point, 0)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := t.open(t.root + point)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	return attach(source, target, 0, nil)
}

// within says whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// readMounts lists the host's mount points before anything is added to them.
// In a tree of its own none of them is seen.
func (t *tree) readMounts() error {
	if t.ownTree() {
		return nil
	}
	points, err := mountPoints()
	t.host = slices.DeleteFunc(points, func(p string) bool { return p == "/" })
	return err
}

// mountPoints lists the mount points of this namespace, sorted.
func mountPoints() ([]string, error) {
	all, err := osfile.MountPoints()
	if err != nil {
		return nil, err
	}
	points := make([]string, len(all))
	for i := range all {
		points[i] = all[i].Path
	}
	slices.Sort(points)
	return slices.Compact(points), nil
}
