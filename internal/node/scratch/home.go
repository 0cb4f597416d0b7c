package scratch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/osfile"
)

// homeFolder is the folder of homes in the pod's root.
const homeFolder = "home"

// Accounts tells which users the machine has; *account.Directory is one.
type Accounts interface {
	ByUID(ctx context.Context, uid uint32) (account.Account, bool, error)
}

// user returns the home folder and the name of a user, by the machine's accounts; nil is the user who
// runs Muster. The home is empty for a user without an account, or without a home.
func (s *Scratch) user(ctx context.Context, uid *int64) (home, name string, err error) {
	id := number(uid, os.Geteuid())
	if uid == nil {
		// A container runtime sets / for a user that it does not know.
		if set := os.Getenv("HOME"); set != "" && (set != "/" || id == 0) {
			return set, os.Getenv("USER"), nil
		}
	}
	if id < 0 || int64(id) > math.MaxUint32 {
		return "", "", nil
	}
	found, _, err := s.accounts.ByUID(ctx, uint32(id))
	return found.Home, found.Login, err
}

// HomeRequest asks for the home folder of a container's user.
type HomeRequest struct {
	// Root is the pod's root, and Seen its path in the container.
	Root, Seen string
	Container  string
	// UID and GID are the user's; nil: those of the user who runs Muster.
	UID, GID *int64
	// Owner works with the files of the user whose folder Root is; UID and GID do not count then.
	// Nil: the folder is Muster's own.
	Owner *userfiles.Files
}

// TellHome sets HOME, and USER if it is known, where the container does not set them itself. The home
// is the one of the user's account. A user without an account has a folder of the pod. While the
// directory of users is away, the error is that: a job would else run with another home than usual.
func (s *Scratch) TellHome(ctx context.Context, v *expansion.Variables, r HomeRequest) error {
	if _, set := v.Get("HOME"); set {
		if _, set := v.Get("USER"); set {
			return nil
		}
	}
	home, name, err := s.user(ctx, r.UID)
	if err != nil {
		return fmt.Errorf("finding the home folder: %w", err)
	}
	if name != "" {
		v.Default("USER", name)
	}
	if _, set := v.Get("HOME"); set {
		return nil
	}
	if home == "" {
		if home, err = r.make(number(r.UID, os.Geteuid()), number(r.GID, os.Getegid())); err != nil {
			return err
		}
	}
	v.Set("HOME", home)
	return nil
}

func number(id *int64, own int) int {
	if id == nil {
		return own
	}
	return int(*id)
}

// HomeInImage makes the home folder for an account of an image, "user" or "user:group", that the
// image's own list of users may not have. It is empty for one that it does have, and for root.
func HomeInImage(r HomeRequest, account string) (string, error) {
	user, group, _ := strings.Cut(account, ":")
	uid, err := strconv.ParseUint(user, 10, 31)
	if err != nil || uid == 0 {
		return "", nil //nolint:nilerr // a name: it has to be in the list
	}
	gid, err := strconv.ParseUint(group, 10, 31)
	if err != nil {
		gid = 0 // the home is of this user alone, whatever the name of its group
	}
	return r.make(int(uid), int(gid))
}

// Spare makes the folder of the pod that is the home of an Owner without one.
func (r HomeRequest) Spare(ctx context.Context) (home string, err error) {
	if err := r.Owner.MakeAll(ctx, userfiles.Place{Base: r.Root, Below: path.Join(homeFolder, r.Container)}, 0o700); err != nil {
		return "", fmt.Errorf("making a home folder: %w", err)
	}
	return path.Join(r.Seen, homeFolder, r.Container), nil
}

// make makes a home folder in the pod's root, of this user alone.
func (r HomeRequest) make(uid, gid int) (home string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making a home folder: %w", err)
		}
	}()
	// Containers of the pod write to its root.
	in, err := os.OpenRoot(r.Root)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	homes, err := enter(in, homeFolder, 0o755)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, homes.Close()) }()
	own, err := enter(homes, r.Container, 0o700)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	if os.Geteuid() == 0 {
		err = own.Chown(".", uid, gid)
	}
	return path.Join(r.Seen, homeFolder, r.Container), err
}

// enter opens a folder, and makes it if it is not there.
func enter(in *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	if err := in.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return osfile.OpenFolder(in, name)
}
