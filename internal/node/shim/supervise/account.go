package supervise

import (
	"bufio"
	"cmp"
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
	"github.com/muster-dev/muster/internal/node/shim/enclosure"
)

// settle makes what a container with a tree of its own finds there: its user
// and its working directory. It runs once the tree is the root.
func (s *supervisor) settle() *startError {
	if s.spec.Isolation == nil || len(s.spec.Isolation.Root) == 0 {
		return nil
	}
	if dir := s.spec.Dir; dir != "" {
		// As other runtimes do; what is there and no folder is found later.
		s.makeDir(dir)
	}
	if s.spec.Account == "" {
		return nil
	}
	users, err := readTable("/etc/passwd")
	if err != nil {
		return fault(contract.ReasonUser, "reading the image's users: %v", err)
	}
	groups, err := readTable("/etc/group")
	if err != nil {
		return fault(contract.ReasonUser, "reading the image's groups: %v", err)
	}
	a, startErr := findAccount(s.spec.Account, cmp.Or(s.spec.Home, "/"), users, groups)
	if startErr != nil {
		return startErr
	}
	s.spec.UID, s.spec.GID, s.spec.Groups = &a.uid, &a.gid, a.groups
	if !slices.ContainsFunc(s.spec.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		s.spec.Env = append(s.spec.Env, "HOME="+a.home)
	}
	return nil
}

// makeDir makes the working directory, in a user namespace as its root.
func (s *supervisor) makeDir(dir string) {
	u := s.spec.Isolation.Users
	if u == nil {
		makeFolders(dir)
		return
	}
	_ = enclosure.As(u.Base, u.Base, func() error { makeFolders(dir); return nil })
}

// ownerIn tells the user and group that the container runs as, by the tables of its tree, before that
// is the root. A link out of the tree is not followed.
func (s *supervisor) ownerIn(tree *os.Root) (uid, gid uint32, err error) {
	if s.spec.Account == "" {
		if s.spec.UID != nil {
			uid = *s.spec.UID
		}
		if s.spec.GID != nil {
			gid = *s.spec.GID
		}
		return uid, gid, nil
	}
	users, err := readTableOf(tree, "etc/passwd")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the image's users: %w", err)
	}
	groups, err := readTableOf(tree, "etc/group")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the image's groups: %w", err)
	}
	a, startErr := findAccount(s.spec.Account, "/", users, groups)
	if startErr != nil {
		return 0, 0, errors.New(startErr.message)
	}
	return a.uid, a.gid, nil
}

// makeFolders makes a folder of the container's tree, with those above it. Programs of the pod write to
// volumes, and the image's owner to the rest: a link that leads out of the tree, such as one in
// /proc/1/fd, is not followed.
func makeFolders(dir string) {
	if _, err := os.Lstat(dir); err == nil {
		return
	}
	tree, err := os.OpenRoot("/")
	if err != nil {
		return
	}
	defer func() { _ = tree.Close() }()
	_ = tree.MkdirAll(strings.TrimPrefix(filepath.Clean(dir), "/"), 0o755)
}

// mostTable is the longest table, in bytes: the image's owner wrote it, and the shim holds
// it in memory.
const mostTable = 4 << 20

// readTable reads a file of lines with fields between colons. One that is not
// there has none. The shim waits for no pipe.
func readTable(path string) ([][]string, error) {
	return readTableFrom(path, func() (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) })
}

// readTableOf reads one of a tree that is not the root yet.
func readTableOf(tree *os.Root, path string) ([][]string, error) {
	return readTableFrom(path, func() (*os.File, error) { return tree.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) })
}

func readTableFrom(path string, open func() (*os.File, error)) ([][]string, error) {
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostTable) {
		err = fmt.Errorf("%s has to be a file of at most %d bytes, and has mode %s and %d bytes: mend it in the image", path, mostTable, info.Mode(), info.Size())
	}
	if err != nil {
		return nil, err
	}
	var rows [][]string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Split(strings.TrimSpace(lines.Text()), ":"); len(fields) > 2 {
			rows = append(rows, fields)
		}
	}
	return rows, lines.Err()
}

type account struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// The fields of /etc/passwd and /etc/group.
const (
	fieldName    = 0
	fieldNumber  = 2
	fieldGroup   = 3 // of a user: the number of its group
	fieldMembers = 3 // of a group: the names of its users
	fieldHome    = 5
)

// findAccount looks up "user" or "user:group". A number stays that number, whatever name the image's
// owner gave to root. Numbers need not be listed; a user that is not has group 0, and a home folder of
// its own.
func findAccount(named, home string, users, groups [][]string) (account, *startError) {
	user, group, withGroup := strings.Cut(named, ":")
	a := account{home: home}
	number, isNumber := identity(user)
	row := find(users, user, number, isNumber)
	switch {
	case row != nil:
		uid, ok := identity(row[fieldNumber])
		if !ok {
			return a, fault(contract.ReasonUser, "the image's /etc/passwd gives the user %s the number %q", user, row[fieldNumber])
		}
		a.uid, a.home = uid, "/"
		if len(row) > fieldHome && row[fieldHome] != "" {
			a.home = row[fieldHome]
		}
		if len(row) > fieldGroup {
			a.gid, _ = identity(row[fieldGroup])
		}
		a.groups = memberships(groups, row[fieldName])
	case isNumber:
		a.uid = number
	default:
		return a, fault(contract.ReasonUser, "the image's /etc/passwd has no user %q; give a number (securityContext.runAsUser)", user)
	}
	if withGroup && group != "" {
		gid, ok := identity(group)
		if row := find(groups, group, gid, ok); row != nil {
			gid, ok = identity(row[fieldNumber])
		}
		if !ok {
			return a, fault(contract.ReasonUser, "the image's /etc/group has no group %q; give a number (securityContext.runAsGroup)", group)
		}
		a.gid = gid
	}
	return a, nil
}

// find returns the row of a number, or else of a name; nil: there is none.
func find(rows [][]string, name string, number uint32, isNumber bool) []string {
	for _, row := range rows {
		if n, ok := identity(row[fieldNumber]); isNumber && ok && n == number || !isNumber && row[fieldName] == name {
			return row
		}
	}
	return nil
}

// memberships are the groups that list a user.
func memberships(groups [][]string, user string) []uint32 {
	var out []uint32
	for _, row := range groups {
		if len(row) <= fieldMembers || !slices.Contains(strings.Split(row[fieldMembers], ","), user) {
			continue
		}
		if gid, ok := identity(row[fieldNumber]); ok {
			out = append(out, gid)
		}
	}
	return out
}

// identity reads a number of a user or a group.
func identity(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err == nil
}
