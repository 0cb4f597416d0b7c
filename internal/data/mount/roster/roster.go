package roster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/osfile"
)

// What is in the folder of a mount.
const (
	usersFolder = "users"
	filesFolder = "files"
	orderFile   = "order"
	lockFile    = "lock"
	aliveFile   = "alive"
	logFile     = "log"
)

// Order is what is mounted.
type Order struct {
	// Commit is the commit, in 64 digits.
	Commit string `json:"commit"`
	// Path is the folder or file of it, no pattern. Default: all.
	Path string `json:"path,omitempty"`
	// Source is where the commit lies, for who serves it. Default: known to them.
	Source string `json:"source,omitempty"`
}

// name is the name of the folder of an order's mount.
func (o Order) name() string {
	return digest.Of([]byte("mount 1\n" + o.Source + "\n" + o.Commit + "\n" + o.Path)).String()[:32]
}

// Options say where a roster is. All are required.
type Options struct {
	// Dir is the folder. It is made if need be; nothing else may be in it.
	Dir string
	// Server is the program that calls [Serve], with its arguments; the folder of the
	// mount is added as the last one.
	Server []string
}

// Roster knows the mounts. One process uses a folder at a time; it may be used by many
// at once.
type Roster struct {
	dir    string
	server []string

	mu sync.Mutex
	// busy are the mounts that are worked on; each is closed then.
	busy map[string]chan struct{}
}

// Open opens a roster. What nobody needs any more [Roster.Sweep] takes away.
func Open(o Options) (*Roster, error) {
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // as the table of mounts has it
	}
	if err != nil {
		return nil, fmt.Errorf("making the folder of mounts: %w", err)
	}
	return &Roster{dir: dir, server: o.Server, busy: map[string]chan struct{}{}}, nil
}

// Sweep takes away mounts whose users are gone, and those that were begun for nobody;
// alive says that a user may still need its mounts. Nothing may be asked of the roster
// before.
func (r *Roster) Sweep(alive func(user string) bool) error {
	var errs []error
	for _, name := range r.names() {
		users, err := r.users(name)
		for _, user := range users {
			if !alive(user) {
				err = errors.Join(err, gone(os.Remove(r.path(name, usersFolder, user))))
			}
		}
		errs = append(errs, err, r.retire(name))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("taking away mounts that nobody needs any more: %w", err)
	}
	return nil
}

// names are the mounts that there are, by the names of their folders.
func (r *Roster) names() []string {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (r *Roster) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

// users are those of a mount.
func (r *Roster) users(name string) ([]string, error) {
	entries, err := os.ReadDir(r.path(name, usersFolder))
	var users []string
	for _, e := range entries {
		users = append(users, e.Name())
	}
	return users, gone(err)
}

// gone makes it no error that something is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// turn waits until nobody else works on a mount; done has to be called.
func (r *Roster) turn(ctx context.Context, name string) (done func(), err error) {
	for {
		r.mu.Lock()
		other := r.busy[name]
		if other == nil {
			mine := make(chan struct{})
			r.busy[name] = mine
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.busy, name)
				close(mine)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ensure has an order be mounted for a user, and says in which folder. It stays until
// the user gives it back, whatever becomes of this process.
func (r *Roster) Ensure(ctx context.Context, user string, o Order) (string, error) {
	if user == "" || strings.HasPrefix(user, ".") || strings.ContainsAny(user, "/\x00") {
		return "", fmt.Errorf("mounting: %q cannot be the name of a user", user)
	}
	o.Path = strings.Trim(path.Clean("/"+o.Path), "/")
	name := o.name()
	done, err := r.turn(ctx, name)
	if err != nil {
		return "", err
	}
	defer done()
	if err := r.note(name, user, o); err != nil {
		return "", fmt.Errorf("noting who needs a mount: %w", err)
	}
	folder := r.path(name, filesFolder)
	if serves, err := live(r.path(name)); err != nil || serves {
		return folder, err
	}
	if err := r.start(ctx, name); err != nil {
		return "", fmt.Errorf("mounting %s of commit %.12s: %w", "/"+o.Path, o.Commit, err)
	}
	return folder, nil
}

// note writes down who needs what, before it is there.
func (r *Roster) note(name, user string, o Order) error {
	for _, folder := range []string{usersFolder, filesFolder} {
		// A mount without a server is there, and cannot be looked at.
		if err := os.MkdirAll(r.path(name, folder), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, file := range []string{filepath.Join(usersFolder, user), lockFile} {
		made, err := os.OpenFile(r.path(name, file), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := made.Close(); err != nil {
			return err
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	// No mount outlives the machine's power, so its order need not.
	return osfile.ReplaceUnsynced(r.path(name, orderFile), text, 0o644)
}

// Release gives back everything that a user needed. What nobody else needs is
// unmounted: who still has a file open reads on.
func (r *Roster) Release(user string) error {
	var errs []error
	for _, name := range r.names() {
		err := os.Remove(r.path(name, usersFolder, user))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		errs = append(errs, err, r.retire(name))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("giving back the mounts of %s: %w", user, err)
	}
	return nil
}

// retire takes a mount away if nobody needs it.
func (r *Roster) retire(name string) error {
	done, err := r.turn(context.Background(), name)
	if err != nil {
		return err
	}
	defer done()
	users, err := r.users(name)
	if err != nil || len(users) > 0 {
		return err
	}
	unlock, err := lock(r.path(name))
	if gone(err) != nil {
		return err
	}
	if err == nil {
		defer unlock()
	}
	// The point goes first, and by itself: whatever is still mounted there keeps it
	// from being removed, and once it is gone nothing can be mounted.
	point := r.path(name, filesFolder)
	if err := clear(point); err != nil {
		return err
	}
	if err := gone(os.Remove(point)); err != nil {
		return err
	}
	return os.RemoveAll(r.path(name))
}

// lock waits until nobody else mounts or unmounts in a folder. Where that was taken
// away meanwhile, the error wraps [fs.ErrNotExist].
func lock(folder string) (unlock func(), err error) {
	path := filepath.Join(folder, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = file.Close() }
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		unlock()
		return nil, fmt.Errorf("waiting for who mounts or unmounts: %w", err)
	}
	held, err := file.Stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = os.Stat(path); err == nil && !os.SameFile(held, now) {
			err = fmt.Errorf("%s was taken away, and is another one now: %w", folder, fs.ErrNotExist)
		}
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// clear takes away all that is mounted at a point, one over the other.
func clear(point string) error {
	for {
		mounted, err := mount.Mounted(point)
		if err != nil || !mounted {
			return err
		}
		if err := mount.Unmount(point, true); err != nil {
			return err
		}
	}
}

// live says that a mount is there and that its server lives. It asks neither.
func live(folder string) (bool, error) {
	mounted, err := mount.Mounted(filepath.Join(folder, filesFolder))
	if err != nil || !mounted {
		return false, err
	}
	file, err := os.Open(filepath.Join(folder, aliveFile))
	if err != nil {
		return false, gone(err)
	}
	defer func() { _ = file.Close() }()
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
