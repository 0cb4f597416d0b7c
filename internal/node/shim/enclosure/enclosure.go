package enclosure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// Options says what to build and where.
type Options struct {
	// State is the container's folder, as an absolute path of the host.
	State string
	// Isolation says what is laid over the host's tree.
	Isolation contract.Isolation
	// MessagePath is created where it lies in the private /dev. Empty: none.
	MessagePath string
	// User opens the mounts with AsUser. Nil: there are none.
	User *userfiles.Files
	// Owner tells the user and group that a container with Isolation.Users runs as, inside, by the
	// tables of its tree. Nil: root.
	Owner func(tree *os.Root) (uid, gid uint32, err error)
}

// tree is a root under construction.
type tree struct {
	Options
	root string
	// private are the mounts, by the kernel's number, that are writable and the
	// container's own: what is missing there is simply created.
	private map[string]bool
	// host lists the host's mount points, outermost first.
	host     []string
	overlays int
	// namespace has the numbers of the tree, volumes those of volumes. Nil: the machine's.
	namespace, volumes *os.File
}

// Enter builds the tree and makes it the root of the calling process. It must
// run in a fresh mount and process namespace, as its first process.
func Enter(o Options) error {
	t := &tree{Options: o, root: filepath.Join(o.State, contract.RootFolder), private: map[string]bool{}}
	defer t.closeUsers()
	steps := []struct {
		what string
		do   func() error
	}{
		// 1. Nothing that is mounted from here on may reach the host.
		{"detaching the mounts from the host's", func() error {
			return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
		}},
		// 2. The new root shows the host's tree, or one of its own.
		{"reading the host's mounts", t.readMounts},
		{"making a user namespace for the image", t.openUsers},
		{"making the new root", t.makeRoot},
		{"making a user namespace for the volumes", t.openVolumes},
		{"mounting /proc", func() error {
			return unix.Mount("proc", t.root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
		{"making /dev", t.makeDev},
		// 3. The container's mounts lie over it.
		{"", t.mountAll},
		{"making the tree read-only", t.seal},
		// 4. It becomes the root.
		{"moving to the new root", t.pivot},
	}
	if o.Isolation.Hostname != "" {
		if err := unix.Sethostname([]byte(o.Isolation.Hostname)); err != nil {
			return fmt.Errorf("setting the host name %q: %w", o.Isolation.Hostname, err)
		}
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			if s.what == "" {
				return err
			}
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

func (t *tree) makeRoot() error {
	if err := os.MkdirAll(t.root, 0o700); err != nil {
		return err
	}
	if t.ownTree() {
		return t.mountRoot()
	}
	if err := unix.Mount("muster", t.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if err := t.own(t.root); err != nil {
		return err
	}
	if err := t.bindHost(); err != nil {
		return err
	}
	for _, name := range []string{"proc", "dev"} {
		if err := os.Mkdir(filepath.Join(t.root, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// bindHost mounts the entries of the host's root in the new root.
func (t *tree) bindHost() error {
	from, err := openAt(unix.AT_FDCWD, "/", 0)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := openAt(unix.AT_FDCWD, t.root, 0)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	return bindEntries(from, to, "proc", "dev")
}

// bindEntries mounts each entry of one folder, with everything that is mounted below it, in
// another, which is empty. It copies links.
func bindEntries(from, to *os.File, except ...string) error {
	list, err := os.Open(byNumber(from))
	if err != nil {
		return err
	}
	entries, err := list.ReadDir(-1)
	if err = errors.Join(err, list.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(except, e.Name()) {
			continue
		}
		if err := bindEntry(from, to, e); err != nil {
			return fmt.Errorf("binding %s: %w", e.Name(), err)
		}
	}
	return nil
}

// bindEntry does so for one entry. An entry that is gone by now is left out.
func bindEntry(from, to *os.File, e fs.DirEntry) error {
	source, err := openAt(int(from.Fd()), e.Name(), unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	isDir := e.IsDir()
	switch info, err := source.Stat(); {
	case errors.Is(err, unix.EACCES): // a mount that only its user may look at
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		link, err := readLink(source)
		if err != nil {
			return err
		}
		return unix.Symlinkat(link, int(to.Fd()), e.Name())
	default:
		isDir = info.IsDir()
	}
	target, err := create(to, e.Name(), isDir)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	if err := attach(source, target, 0, nil); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}

func bind(source, target string) error {
	return unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// mountAll lays the container's mounts over the tree, outer ones first.
func (t *tree) mountAll() error {
	mounts := slices.Clone(t.Isolation.Mounts)
	slices.SortStableFunc(mounts, func(a, b contract.Mount) int {
		return strings.Count(filepath.Clean(a.Target), "/") - strings.Count(filepath.Clean(b.Target), "/")
	})
	targets, given := make([]string, len(mounts)), make([]uint64, len(mounts))
	for i, m := range mounts {
		if !filepath.IsAbs(m.Target) || filepath.Clean(m.Target) == "/" {
			return fmt.Errorf("mounting at %q: the target must be an absolute path below /", m.Target)
		}
		target, attributes, err := t.mount(m)
		if err != nil {
			return fmt.Errorf("mounting %s at %s: %w", describe(m), m.Target, err)
		}
		targets[i], given[i] = target, attributes
	}
	return t.protect(mounts, targets, given)
}

// protect sets the attributes of the container's mounts, with what came along with their
// sources, and with ReadOnlyRoot refuses writes to the host's tree. It comes last, so that inner
// targets could still be created; inner mounts of the container keep their own mode.
func (t *tree) protect(mounts []contract.Mount, targets []string, given []uint64) error {
	sealed := t.Isolation.ReadOnlyRoot && !t.ownTree()
	if !sealed && !t.confines() && !slices.ContainsFunc(mounts, func(m contract.Mount) bool { return m.ReadOnly || m.AsUser }) {
		return nil
	}
	points, err := mountPoints()
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	for _, point := range points {
		// The innermost of the container's mounts that the point belongs to;
		// of several at one place, the last.
		owner := -1
		for i, target := range targets {
			if within(point, target) && (owner < 0 || len(target) >= len(targets[owner])) {
				owner = i
			}
		}
		var attributes uint64
		switch {
		case owner >= 0:
			attributes = given[owner]
		case sealed && t.ofHost(point):
			attributes = unix.MOUNT_ATTR_RDONLY
		}
		if attributes == 0 {
			continue
		}
		if err := restrict(point, attributes); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("restricting %s: %w", strings.TrimPrefix(point, t.root), err)
		}
	}
	return nil
}

// ofHost reports whether a mount point of the new root shows a part of the host's
// tree, which has neither the private /proc nor the private /dev.
func (t *tree) ofHost(point string) bool {
	return within(point, t.root) && !within(point, t.root+"/proc") && !within(point, t.root+"/dev")
}

func describe(m contract.Mount) string {
	if m.Tmpfs {
		return "a tmpfs"
	}
	return filepath.Join(m.Source, m.SubPath)
}

// mount makes one mount, and returns where it is and its attributes.
func (t *tree) mount(m contract.Mount) (target string, attributes uint64, err error) {
	isDir := true
	var source *os.File
	var mode fs.FileMode
	var dev uint64
	if !m.Tmpfs {
		if source, mode, dev, err = t.openSource(m); err != nil {
			return "", 0, err
		}
		defer func() { _ = source.Close() }()
		isDir = mode.IsDir()
		attributes = t.attributes(m, mode, dev)
	} else if m.ReadOnly {
		attributes = unix.MOUNT_ATTR_RDONLY
	}
	target, at, err := t.ensure(m.Target, isDir)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = at.Close() }()
	if m.Tmpfs {
		err = unix.Mount("tmpfs", byNumber(at), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, sized("mode=1777", m.SizeBytes))
	} else {
		err = t.attachVolume(m, source, at, attributes, ofDev(mode, dev))
	}
	if err == nil && isDir && (m.Tmpfs || ownVolume(m)) && !m.AsUser { // root makes nothing in folders of users
		err = t.own(target)
	}
	return target, attributes, err
}

// openSource opens what a mount shows. The shim, which may be root, does not ask a file server of a user
// about it: the server may refuse root, or hang.
func (t *tree) openSource(m contract.Mount) (source *os.File, mode fs.FileMode, dev uint64, err error) {
	if m.AsUser {
		if t.User == nil {
			return nil, 0, 0, errors.New("the container has no user who could open it")
		}
		source, info, err := t.User.Open(context.Background(), userfiles.Place{Base: m.Source, Below: m.SubPath}, unix.O_PATH, 0)
		return source, info.Mode, info.Dev, err
	}
	if source, err = openBelow(m.Source, m.SubPath); err != nil {
		return nil, 0, 0, err
	}
	info, err := source.Stat()
	if err != nil {
		return nil, 0, 0, errors.Join(err, source.Close())
	}
	return source, info.Mode(), deviceOf(info), nil
}

// attributes are those of a mount of a file or folder. In a confined container set-user-ID programs
// and device files of volumes have no effect. The machine's own device files, and those of a
// path that is shown at its own place, stay what they are in the host's tree.
func (t *tree) attributes(m contract.Mount, mode fs.FileMode, dev uint64) (attributes uint64) {
	if m.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if !m.AsUser && (!t.confines() || atOwnPlace(m) && t.Isolation.Users == nil) {
		return attributes
	}
	attributes |= unix.MOUNT_ATTR_NOSUID
	if !ofDev(mode, dev) {
		attributes |= unix.MOUNT_ATTR_NODEV
	}
	return attributes
}

// confines reports whether set-user-ID programs and device files of volumes have no effect.
func (t *tree) confines() bool { return t.Isolation.Confine || t.Isolation.Users != nil }

// attachVolume mounts a volume, with the numbers of its user. A read-only one without id-mapped
// mounts has the machine's: the container can read what everybody may.
func (t *tree) attachVolume(m contract.Mount, source, at *os.File, attributes uint64, device bool) error {
	if t.volumes == nil || device {
		return attach(source, at, attributes, nil)
	}
	err := attach(source, at, attributes, t.volumes)
	switch {
	case errors.Is(err, errNotMapped) && m.ReadOnly:
		return attach(source, at, attributes, nil)
	case errors.Is(err, errNotMapped):
		return fmt.Errorf("%w: run the image as your own user (runAsUser: %d), or mount it read-only", err, t.Isolation.Users.UID)
	}
	return err
}

// ofDev reports whether a file is a device, or lies on the file system of the machine's /dev.
func ofDev(mode fs.FileMode, dev uint64) bool {
	if mode&fs.ModeDevice != 0 {
		return true
	}
	own, err := os.Stat("/dev")
	return err == nil && dev == deviceOf(own)
}

// sized adds the bound of a tmpfs to its options. 0: the kernel's.
func sized(options string, bytes int64) string {
	if bytes <= 0 {
		return options
	}
	return fmt.Sprintf("%s,size=%d", options, bytes)
}

// ownVolume says whether a mount's source may have folders created in it for
// mounts further inside: only where it is writable and not a part of the
// host's tree shown at its own place.
func ownVolume(m contract.Mount) bool { return !m.ReadOnly && !atOwnPlace(m) }

// atOwnPlace says whether a mount shows a part of the host's tree where it is on the host.
func atOwnPlace(m contract.Mount) bool {
	return !m.Tmpfs && filepath.Join(m.Source, m.SubPath) == filepath.Clean(m.Target)
}

// attributeFlags are the attributes of mounts, as older kernels know them.
var attributeFlags = map[uint64]uintptr{
	unix.MOUNT_ATTR_RDONLY: unix.MS_RDONLY, unix.MOUNT_ATTR_NOSUID: unix.MS_NOSUID, unix.MOUNT_ATTR_NODEV: unix.MS_NODEV,
}

// restrict sets attributes of the one mount at a mount point, such as MOUNT_ATTR_RDONLY, which refuses writes.
func restrict(target string, attributes uint64) error {
	err := unix.MountSetattr(unix.AT_FDCWD, target, 0, &unix.MountAttr{Attr_set: attributes})
	if err == nil || !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(target, &fs); err != nil {
		return err
	}
	// The flags that a remount may not drop, as they stand.
	const kept = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME
	set := uintptr(fs.Flags) & kept
	for attribute, flag := range attributeFlags {
		if attributes&attribute != 0 {
			set |= flag
		}
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|set, "")
}

// pivot makes the new root the root of this process and lets go of the old.
func (t *tree) pivot() error {
	if err := unix.Chdir(t.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}
