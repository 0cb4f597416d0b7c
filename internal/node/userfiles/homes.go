package userfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// Homes are folders of users below one folder of root's, each named for the user's number. Users may enter
// the folder of root's, and see no other's home.
type Homes struct {
	dir     string
	helpers *Helpers
}

// NewHomes returns the homes in a folder, which the first call of [Homes.Of] makes.
func NewHomes(dir string, helpers *Helpers) *Homes { return &Homes{dir: dir, helpers: helpers} }

// Helpers returns the helpers that the homes use.
func (h *Homes) Helpers() *Helpers { return h.helpers }

// Home is the folder of one user in Muster's data folder.
type Home struct {
	*Files
	dir string
}

// Place is a path in the home. No link in it is followed, and no mount is entered: the user may have put
// either there.
func (h Home) Place(names ...string) Place {
	return Place{Base: h.dir, OneMount: true}.Join(names...)
}

// Of makes the home of a user, if it is not there, and returns it.
func (h *Homes) Of(u User) (Home, error) {
	home := Home{Files: h.helpers.As(u), dir: filepath.Join(h.dir, strconv.FormatUint(uint64(u.UID), 10))}
	if err := h.make(u); err != nil {
		return Home{}, fmt.Errorf("making the folder of user %d: %w", u.UID, err)
	}
	return home, nil
}

// Kept returns the home of a user as it is. The user has no groups: it is for a removal, which works also
// while the directory of users is away.
func (h *Homes) Kept(uid uint32) Home {
	return Home{Files: h.helpers.As(User{UID: uid, GID: unknownGroup}), dir: filepath.Join(h.dir, strconv.FormatUint(uint64(uid), 10))}
}

// unknownGroup is the number that the kernel shows for groups that it has no number for.
const unknownGroup = 65534

// make uses no path in a folder of a user: the entries of h.dir are root's to name.
func (h *Homes) make(u User) (err error) {
	if err := os.MkdirAll(h.dir, 0o711); err != nil {
		return err
	}
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.Chmod(".", 0o711); err != nil { // whatever the umask
		return err
	}
	name := strconv.FormatUint(uint64(u.UID), 10)
	err = root.Mkdir(name, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	var own uint32
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		own = stat.Uid
	}
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is %s: remove it", filepath.Join(h.dir, name), osfile.Kind(info.Mode()))
	case own == u.UID:
		return nil
	case own != 0:
		return fmt.Errorf("%s belongs to user %d: give it to user %d, or remove it", filepath.Join(h.dir, name), own, u.UID)
	}
	// An earlier Muster ended before this line.
	return root.Lchown(name, int(u.UID), int(u.GID))
}

// Users returns the numbers of the users that have a home.
func (h *Homes) Users() ([]uint32, error) {
	list, err := os.ReadDir(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var users []uint32
	for _, e := range list {
		if uid, failed := parseID(e.Name()); failed == nil && e.IsDir() {
			users = append(users, uid)
		}
	}
	return users, err
}

// Memory mounts a file system in memory, of the user's own, at a folder of root's below dir, once. Users
// cannot rename a folder above it, so that its path leads nowhere else. Bytes bound it; 0: the kernel's.
func Memory(dir string, u User, bytes int64) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	var own, above unix.Stat_t
	if err := errors.Join(unix.Lstat(dir, &own), unix.Lstat(filepath.Dir(dir), &above)); err != nil {
		return err
	}
	if own.Dev != above.Dev {
		return nil
	}
	options := fmt.Sprintf("mode=0700,uid=%d,gid=%d", u.UID, u.GID)
	if bytes > 0 {
		options += fmt.Sprintf(",size=%d", bytes)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting a file system in memory: %w", err)
	}
	return nil
}
