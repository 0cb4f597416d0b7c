package identity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/people/owner"
)

// Umask is that of users who share a machine: nobody else reads their new files.
const Umask = 0o077

// Accounts tells which users the machine has; *account.Directory is one.
type Accounts interface {
	ByUID(ctx context.Context, uid uint32) (account.Account, bool, error)
	GIDs(ctx context.Context, uid uint32) ([]uint32, error)
}

// Options set up [Users].
type Options struct {
	// Accounts tells which users the machine has. Required.
	Accounts Accounts
	// Shared is true on a machine that several users share.
	Shared bool
	// Processes is the highest number of processes and threads of one user there. Default: a
	// third of what the machine allows.
	Processes int64
}

// Users finds the users of containers.
type Users struct{ options Options }

// New returns Users.
func New(o Options) *Users {
	if o.Processes <= 0 {
		o.Processes = process.UserProcesses()
	}
	return &Users{o}
}

// kind is how a User came to be.
type kind int

const (
	nobody kind = iota
	own         // who runs Muster
	asked       // by the pod
	owning      // the pod's namespace
)

// User is whom the processes of a container run as.
type User struct {
	kind      kind
	uid, gid  uint32
	groups    []uint32
	account   account.Account
	processes int64
	// spare takes the place of a home that is no folder.
	spare string
}

// ErrNoOwner is wrapped by the error for a namespace that belongs to no user.
var ErrNoOwner = errors.New("the namespace belongs to no user")

// Owner returns the user whose namespace this is. The error wraps [ErrNoOwner], [account.ErrAway] or
// that of ctx, or tells that the machine does not know the user now.
func (u *Users) Owner(ctx context.Context, namespace string) (User, error) {
	uid, ok := owner.Of(namespace)
	if !ok {
		return User{}, fmt.Errorf("namespace %s: %w", namespace, ErrNoOwner)
	}
	found, gids, err := u.lookUp(ctx, uid)
	if err != nil {
		return User{}, err
	}
	if len(gids) == 0 {
		return User{}, fmt.Errorf("the directory of users does not know uid %d, the owner of namespace %s: "+
			"the pod starts once it does (getent passwd %d)", uid, namespace, uid)
	}
	return User{kind: owning, uid: uid, gid: gids[0], groups: gids, account: found, processes: u.options.Processes}, nil
}

// lookUp returns an account and its groups, the primary one first; none for a uid that the directory
// does not know.
func (u *Users) lookUp(ctx context.Context, uid uint32) (account.Account, []uint32, error) {
	found, known, err := u.options.Accounts.ByUID(ctx, uid)
	if err != nil || !known {
		return account.Account{}, nil, err
	}
	gids, err := u.options.Accounts.GIDs(ctx, uid)
	return found, gids, err
}

// Of returns the user of a container that runs in the files of this machine.
func (u *Users) Of(ctx context.Context, pod *corev1.Pod, ctr *corev1.Container) (User, error) {
	if u.options.Shared {
		return u.Owner(ctx, pod.Namespace)
	}
	uid, gid := admission.User(pod, ctr)
	who := User{kind: own, uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if uid != nil && *uid != int64(os.Geteuid()) {
		if *uid < 0 || *uid >= math.MaxUint32 {
			return User{}, fmt.Errorf("runAsUser: %d is no number of a user", *uid)
		}
		found, gids, err := u.lookUp(ctx, uint32(*uid))
		if err != nil {
			return User{}, err
		}
		who.kind, who.uid, who.account, who.groups = asked, uint32(*uid), found, gids
		if len(gids) > 0 {
			who.gid = gids[0]
		}
	}
	if gid != nil {
		if *gid < 0 || *gid >= math.MaxUint32 {
			return User{}, fmt.Errorf("runAsGroup: %d is no number of a group", *gid)
		}
		who.gid = uint32(*gid)
	}
	return who, nil
}

// Numbers are the user's uid and gid.
func (u User) Numbers() (uid, gid uint32) { return u.uid, u.gid }

// Groups are the numbers of the user's groups, but for a group that the pod asks for.
func (u User) Groups() []uint32 { return u.groups }

// Shared is true for the owner of a namespace.
func (u User) Shared() bool { return u.kind == owning }

// Set makes a container run as the user.
func (u User) Set(s *process.Spec) error {
	switch u.kind {
	case own:
		if u.gid != uint32(os.Getegid()) {
			s.GID = &u.gid
		}
		return nil
	case asked:
		s.UID, s.Groups = &u.uid, u.groups
		if u.gid != uint32(os.Getegid()) {
			s.GID = &u.gid
		}
		return nil
	case owning:
		s.UID, s.GID, s.Groups = &u.uid, &u.gid, u.groups
		s.Owner = &process.Owner{Umask: Umask, Processes: u.processes, SpareHome: u.spare}
		return nil
	}
	return errors.New("a container has no user")
}

// inherited are the variables that containers have from the node, since their
// image is this machine.
var inherited = []string{"PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"}

// personal are those of them that belong to the user who runs Muster.
var personal = []string{"USER", "LOGNAME", "SHELL"}

const (
	// rootPath is the PATH of a machine for a Muster that has none.
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// userPath is the PATH of a user who is not root.
	userPath = "/usr/local/bin:/usr/bin:/bin"
)

// Tell sets the variables of a session that the container does not set itself, but for HOME.
func (u User) Tell(v *expansion.Variables) {
	for _, name := range inherited {
		value, set := os.LookupEnv(name)
		switch {
		case !set, u.kind != own && slices.Contains(personal, name), u.Shared() && name == "LD_LIBRARY_PATH":
		case name == "PATH" && u.kind != own:
			v.Default(name, u.path(value))
		default:
			v.Default(name, value)
		}
	}
	if u.kind == own {
		v.Default("PATH", rootPath)
		return
	}
	v.Default("PATH", u.path(""))
	if login := u.account.Login; login != "" {
		v.Default("USER", login)
		v.Default("LOGNAME", login)
	}
	if shell := u.account.Shell; shell != "" {
		v.Default("SHELL", shell)
	}
}

// path is the user's PATH. On a machine that users share it has nothing of Muster's, which is root's;
// else it lacks the folders that are for root.
func (u User) path(ofMuster string) string {
	if u.uid == 0 {
		return rootPath
	}
	if u.Shared() || ofMuster == "" {
		return userPath
	}
	home := os.Getenv("HOME")
	var kept []string
	for _, folder := range filepath.SplitList(ofMuster) {
		if path.Base(folder) != "sbin" && (len(home) < 2 || folder != home && !strings.HasPrefix(folder, home+"/")) {
			kept = append(kept, folder)
		}
	}
	return strings.Join(append(kept, missing(kept)...), ":")
}

// missing are the folders of userPath that a PATH lacks.
func missing(have []string) []string {
	return slices.DeleteFunc(filepath.SplitList(userPath), func(folder string) bool { return slices.Contains(have, folder) })
}

// HomeIn sets HOME where the container does not, to the home of the account, or to a folder of the
// pod for a user without one. Spare is that folder; it also serves where the account's home is no
// folder of this machine, which only the user can find out.
func (u User) HomeIn(v *expansion.Variables, spare string) User {
	if _, set := v.Get("HOME"); set {
		return u
	}
	if home := u.account.Home; home != "" && (home != "/" || u.uid == 0) {
		v.Set("HOME", home)
		u.spare = spare
		return u
	}
	v.Set("HOME", spare)
	return u
}
