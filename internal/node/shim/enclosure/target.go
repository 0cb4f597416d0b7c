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
// host. It returns where it is.
func (t *tree) ensure(target string, isDir bool) (string, error) {
	existing, missing, err := t.resolve(target)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(existing)
	if err != nil {
		return "", err
	}
	if len(missing) == 0 {
		if info.IsDir() != isDir {
			return "", fmt.Errorf("the source is a %s and the target is a %s", kind(isDir), kind(info.IsDir()))
		}
		return existing, nil
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is no folder", strings.TrimPrefix(existing, t.root))
	}
	if slices.Contains(missing, "..") {
		return "", fmt.Errorf("%q leads through a folder that does not exist", target)
	}
	if err := t.makeWritable(existing); err != nil {
		return "", err
	}
	path := existing
	for i, name := range missing {
		path = filepath.Join(path, name)
		if i == len(missing)-1 && !isDir {
			err = os.WriteFile(path, nil, 0o644)
		} else {
			err = os.Mkdir(path, 0o755)
		}
		if err != nil {
			return "", err
		}
	}
	return path, nil
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
	id, err := mountID(folder)
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
		err = t.mirror(folder, inside)
	} else if err = t.overlay(folder, inside); err != nil {
		// The file system that holds the state may not carry an overlay.
		err = t.mirror(folder, inside)
	}
	if err != nil {
		return fmt.Errorf("making room in %s: %w", inside, err)
	}
	return t.own(folder)
}

// own records that the mount at folder is writable and the container's own.
func (t *tree) own(folder string) error {
	id, err := mountID(folder)
	t.private[id] = err == nil
	return err
}

// mountID is the kernel's number of the mount that path lies on.
func mountID(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	info := "/proc/self/fdinfo/" + strconv.Itoa(fd)
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
func (t *tree) mirror(folder, inside string) error {
	info, err := os.Stat(inside)
	if err != nil {
		return err
	}
	mode := "mode=" + strconv.FormatUint(uint64(info.Mode().Perm()), 8)
	if err := unix.Mount("muster", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, mode); err != nil {
		return err
	}
	return bindEntries(inside, folder)
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
	info, err := os.Stat(folder)
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
	var fds [3]int
	for i, d := range []string{folder, upper, work} {
		if fds[i], err = unix.Open(d, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		defer func() { _ = unix.Close(fds[i]) }()
	}
	options := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d", fds[0], fds[1], fds[2])
	if err := unix.Mount("overlay", folder, "overlay", 0, options); err != nil {
		return err
	}
	var bound string // an outer one brings the inner ones along
	for _, point := range t.host {
		if point == inside || !within(point, inside) || bound != "" && within(point, bound) {
			continue
		}
		bound = point
		if err := bind(point, t.root+point); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("binding %s again: %w", point, err)
		}
	}
	return nil
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
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) >= 5 {
			points = append(points, unescape(fields[4]))
		}
	}
	slices.Sort(points)
	return slices.Compact(points), nil
}

// unescape undoes the octal escapes of /proc/self/mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
