package enclosure

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// A container with contract.Users runs in a user namespace. Its tree and its volumes are mounted
// id-mapped, so that the disk has the owners that the image and the user of the machine expect:
//
//   - In the tree the image's numbers are on the disk, and the container's in the namespace.
//   - In a volume the files that the container's main user makes are the user's. All other owners
//     stay what they are. Most of them have no number in the namespace, so its root has no right to
//     their files beyond that of everybody.

// mapping returns the numbers of a namespace, as in uid_map: the machine's number of each number inside.
// Own stays itself; the others from 0 to 65535 become those from base on.
func mapping(own, base uint32) []syscall.SysProcIDMap {
	line := func(inside, outside, size uint32) syscall.SysProcIDMap {
		return syscall.SysProcIDMap{ContainerID: int(inside), HostID: int(outside), Size: int(size)}
	}
	if own >= contract.SubordinateIDs {
		return []syscall.SysProcIDMap{line(0, base, contract.SubordinateIDs), line(own, own, 1)}
	}
	lines := []syscall.SysProcIDMap{line(0, base, own), line(own, own, 1), line(own+1, base+own+1, contract.SubordinateIDs-own-1)}
	return slices.DeleteFunc(lines, func(l syscall.SysProcIDMap) bool { return l.Size == 0 })
}

// volumeMapping returns the numbers of a volume, as in uid_map: the machine's number of each number on
// the disk. The user's becomes that of the container's main user. The container's other numbers have
// none, so no program makes a file of them, or gives one away. All others stay what they are.
func volumeMapping(own, main, base uint32) []syscall.SysProcIDMap {
	const end = math.MaxUint32 // the last number stands for none
	lines := []syscall.SysProcIDMap{{ContainerID: int(own), HostID: int(main), Size: 1}}
	gaps := [][2]int{{int(own), int(own) + 1}, {int(base), int(base) + contract.SubordinateIDs}}
	slices.SortFunc(gaps, func(a, b [2]int) int { return a[0] - b[0] })
	from := 0
	for _, gap := range append(gaps, [2]int{end, end}) {
		if size := gap[0] - from; size > 0 {
			lines = append(lines, syscall.SysProcIDMap{ContainerID: from, HostID: from, Size: size})
		}
		from = gap[1]
	}
	return lines
}

// outside returns the machine's number of a number inside; false: it has none.
func outside(lines []syscall.SysProcIDMap, inside uint32) (uint32, bool) {
	for _, l := range lines {
		if n := int(inside) - l.ContainerID; n >= 0 && n < l.Size {
			return uint32(l.HostID + n), true
		}
	}
	return 0, false
}

// Mappings are the numbers of users and groups in the namespace of a container.
func Mappings(u contract.Users) (uids, gids []syscall.SysProcIDMap) {
	return mapping(u.UID, u.Base), mapping(u.GID, u.Base)
}

// newNamespace makes a user namespace with these numbers, and opens it. A process that stops at its
// first instruction is in it until then. Its numbers are written by a /proc of this process's own
// namespace of processes, since the one that is mounted may be another's.
func newNamespace(uids, gids []syscall.SysProcIDMap) (_ *os.File, err error) {
	proc, err := openProc()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unix.Close(proc)) }()
	// The tracer is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"muster-shim"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Ptrace: true, Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		for {
			// The shim may have waited for it already.
			if _, waitErr := unix.Wait4(pid, nil, unix.WALL, nil); !errors.Is(waitErr, unix.EINTR) {
				return
			}
		}
	}()
	folder := strconv.Itoa(pid)
	if err := errors.Join(writeMap(proc, folder+"/uid_map", uids), writeMap(proc, folder+"/gid_map", gids)); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(proc, folder+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a user namespace: %w", err)
	}
	return os.NewFile(uintptr(fd), "user namespace"), nil
}

// openProc makes a /proc that is mounted nowhere.
func openProc() (int, error) {
	settings, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("opening /proc: %w", err)
	}
	defer func() { _ = unix.Close(settings) }()
	if err := unix.FsconfigCreate(settings); err != nil {
		return -1, fmt.Errorf("opening /proc: %w", err)
	}
	mount, err := unix.Fsmount(settings, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("opening /proc: %w", err)
	}
	return mount, nil
}

func writeMap(proc int, name string, lines []syscall.SysProcIDMap) error {
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "%d %d %d\n", l.ContainerID, l.HostID, l.Size)
	}
	fd, err := unix.Openat(proc, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("giving a user namespace its numbers: %w", err)
	}
	_, err = unix.Write(fd, []byte(text.String())) // whole, or not at all
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("giving a user namespace its numbers: %w", err)
	}
	return nil
}

// errNotMapped means that a file system or the kernel has no id-mapped mounts.
var errNotMapped = errors.New("id-mapped mounts are not supported: they need Linux 5.12, for the layers of images Linux 5.19, and a file system such as ext4, xfs or btrfs")

// setMapped makes a mount that is nowhere yet, with those below it, id-mapped.
func setMapped(mount int, namespace *os.File) error {
	err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w (%w)", errNotMapped, err)
	}
	return err
}

// cloneMapped returns an id-mapped mount of a folder of the machine, mounted nowhere yet.
func cloneMapped(folder string, namespace *os.File) (int, error) {
	mount, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: folder, Err: err}
	}
	if err := setMapped(mount, namespace); err != nil {
		return -1, errors.Join(fmt.Errorf("mounting %s: %w", folder, err), unix.Close(mount))
	}
	return mount, nil
}

// MappedMounts returns an error if images cannot run in user namespaces on this machine, since the
// file system of a folder or the kernel has no id-mapped mounts. It changes nothing.
func MappedMounts(folder string) (err error) {
	lines := mapping(1, 1<<31)
	namespace, err := newNamespace(lines, lines)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, namespace.Close()) }()
	mount, err := cloneMapped(folder, namespace)
	if err != nil {
		return err
	}
	return unix.Close(mount)
}

// mountMapped mounts a part of the container's tree with the numbers of its namespace.
func (t *tree) mountMapped(m contract.RootMount) error {
	flags, data := splitOptions(m.Options)
	if m.Type != "overlay" {
		if flags&unix.MS_BIND == 0 {
			return fmt.Errorf("its type is %q: only overlay and bind mounts can be id-mapped", m.Type)
		}
		mount, err := cloneMapped(m.Source, t.namespace)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(mount) }()
		if err := unix.MoveMount(mount, "", unix.AT_FDCWD, t.root, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return err
		}
		if flags&unix.MS_RDONLY != 0 {
			return restrict(t.root, unix.MOUNT_ATTR_RDONLY)
		}
		return nil
	}
	// The layers are mounted in a folder in memory, which the overlay then covers.
	if err := unix.Mount("muster", t.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); err != nil {
		return err
	}
	for i, option := range data {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "lowerdir":
			value, err = t.mountLayers(strings.Split(value, ":"))
		case "upperdir":
			value, err = t.mountLayer("upper", value)
		case "workdir":
			// It has to lie on the same mount as the writable layer.
			value = filepath.Join("upper", filepath.Base(value))
		default:
			continue
		}
		if err != nil {
			return err
		}
		data[i] = name + "=" + value
	}
	if err := unix.Chdir(t.root); err != nil {
		return err
	}
	// The overlay writes its layer as whoever mounts it, and root of the machine has no number there.
	u := t.Isolation.Users
	return As(u.Base, u.Base, func() error {
		return unix.Mount(m.Source, t.root, "overlay", flags, strings.Join(data, ","))
	})
}

// mountLayers mounts the layers of an image below the new root, and returns them for an overlay.
func (t *tree) mountLayers(folders []string) (string, error) {
	names := make([]string, len(folders))
	for i, folder := range folders {
		names[i] = strconv.Itoa(i)
		if err := t.placeLayer(names[i], folder); err != nil {
			return "", err
		}
	}
	return strings.Join(names, ":"), nil
}

// mountLayer mounts the folder above a layer, and returns the layer for an overlay.
func (t *tree) mountLayer(name, folder string) (string, error) {
	return filepath.Join(name, filepath.Base(folder)), t.placeLayer(name, filepath.Dir(folder))
}

func (t *tree) placeLayer(name, folder string) error {
	mount, err := cloneMapped(folder, t.namespace)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(mount) }()
	at := filepath.Join(t.root, name)
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	return unix.MoveMount(mount, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// openUsers makes the namespace that the tree is mounted with.
func (t *tree) openUsers() (err error) {
	u := t.Isolation.Users
	if u == nil {
		return nil
	}
	if err := u.Check(); err != nil {
		return err
	}
	if !t.ownTree() {
		return errors.New("a user namespace is for containers in images")
	}
	uids, gids := Mappings(*u)
	t.namespace, err = newNamespace(uids, gids)
	return err
}

// openVolumes makes the namespace that volumes are mounted with, once the tree tells the main user.
func (t *tree) openVolumes() error {
	u := t.Isolation.Users
	if u == nil {
		return nil
	}
	uid, gid := uint32(0), uint32(0)
	if t.Owner != nil {
		tree, err := os.OpenRoot(t.root)
		if err != nil {
			return err
		}
		uid, gid, err = t.Owner(tree)
		if err := errors.Join(err, tree.Close()); err != nil {
			return err
		}
	}
	uids, gids := Mappings(*u)
	mainUID, uidOK := outside(uids, uid)
	mainGID, gidOK := outside(gids, gid)
	if !uidOK || !gidOK {
		return fmt.Errorf("the container runs as user %d and group %d: in an image on a machine of several users, numbers from 0 to %d and your own (%d, %d) are allowed", uid, gid, contract.SubordinateIDs-1, u.UID, u.GID)
	}
	if mainUID == u.UID && mainGID == u.GID {
		return nil // the user's files are the user's as they are
	}
	var err error
	t.volumes, err = newNamespace(volumeMapping(u.UID, mainUID, u.Base), volumeMapping(u.GID, mainGID, u.Base))
	return err
}

// closeUsers closes the namespaces; mounts keep what they need of them.
func (t *tree) closeUsers() {
	for _, namespace := range []*os.File{t.namespace, t.volumes} {
		if namespace != nil {
			_ = namespace.Close()
		}
	}
}

// asOwner runs do as the owner of a folder. In an id-mapped mount root of the machine has no number
// and can create nothing.
func asOwner(folder *os.File, do func() error) error {
	info, err := folder.Stat()
	if err != nil {
		return err
	}
	if who, ok := fileOwner(info); ok {
		return As(uint32(who.uid), uint32(who.gid), do)
	}
	return do()
}

// As runs do on a thread that makes files as a user, with the capabilities of this process.
func As(uid, gid uint32, do func() error) (err error) {
	runtime.LockOSThread()
	beforeUID, beforeGID := os.Geteuid(), os.Getegid()
	defer func() {
		back := errors.Join(unix.Setfsuid(beforeUID), unix.Setfsgid(beforeGID))
		if back == nil {
			runtime.UnlockOSThread() // else no other goroutine gets this thread
		}
		err = errors.Join(err, back)
	}()
	if err := errors.Join(unix.Setfsgid(int(gid)), unix.Setfsuid(int(uid))); err != nil {
		return err
	}
	if err := keepCapabilities(); err != nil {
		return err
	}
	return do()
}

// keepCapabilities gives the thread those back that it lost with another user of files.
func keepCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	for i := range sets {
		sets[i].Effective = sets[i].Permitted
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("keeping capabilities: %w", err)
	}
	return nil
}

// create makes an entry of a folder, and opens it.
func (t *tree) create(folder *os.File, name string, isDir bool) (entry *os.File, err error) {
	if t.Isolation.Users == nil {
		return create(folder, name, isDir)
	}
	err = asOwner(folder, func() (err error) {
		entry, err = create(folder, name, isDir)
		return err
	})
	return entry, err
}

// makePlace makes a folder of the tree that something is mounted at.
func (t *tree) makePlace(name string) error {
	path := filepath.Join(t.root, name)
	if t.Isolation.Users == nil {
		return makePlace(path)
	}
	return As(t.Isolation.Users.Base, t.Isolation.Users.Base, func() error { return makePlace(path) })
}
