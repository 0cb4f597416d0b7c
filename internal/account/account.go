package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// ErrAway is wrapped by the errors of a directory that gives no answer.
var ErrAway = errors.New("the directory of users gives no answer")

// Account is one user of the machine.
type Account struct {
	// UID and GID are the numbers of the user and of the primary group.
	UID, GID uint32
	// Login is empty where the directory has no login that belongs to UID alone.
	Login string
	// Home and Shell are absolute paths, or empty.
	Home, Shell string
}

// Group is one group of the machine.
type Group struct {
	GID  uint32
	Name string
}

// Options set up a [Directory]. The zero value is that of a real machine.
type Options struct {
	// Getent is the path of getent. Default: that of the machine; without one, the
	// directory reads the files of Folder.
	Getent string
	// FilesOnly reads the files of Folder and runs no getent, such as for the users of
	// another root.
	FilesOnly bool
	// Folder has the files passwd and group. Default: /etc.
	Folder string
	// Limit is the time limit of one getent. Default: 3 s.
	Limit time.Duration
	// Known, Unknown and Away are the times for which the three answers are kept.
	// Defaults: 10 min, 30 s, 5 s.
	Known, Unknown, Away time.Duration
	// Stale is the time for which a known answer is still given while the directory is
	// away. Groups of users are never given so. Default: 24 h.
	Stale time.Duration
	// Processes is the highest number of getents at once. Default: 4.
	Processes int
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

func (o Options) complete() Options {
	o.Folder = cmp.Or(o.Folder, "/etc")
	o.Limit = cmp.Or(o.Limit, 3*time.Second)
	o.Known = cmp.Or(o.Known, 10*time.Minute)
	o.Unknown = cmp.Or(o.Unknown, 30*time.Second)
	o.Away = cmp.Or(o.Away, 5*time.Second)
	o.Stale = cmp.Or(o.Stale, 24*time.Hour)
	o.Processes = cmp.Or(o.Processes, 4)
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.FilesOnly:
		o.Getent = ""
	case o.Getent == "":
		o.Getent = findGetent()
	}
	return o
}

// findGetent returns the path of the machine's getent, or nothing. PATH does not count:
// its first folder may be a user's.
func findGetent() string {
	for _, folder := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin", "/usr/local/bin"} {
		path := filepath.Join(folder, "getent")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// Directory answers questions about users and keeps the answers. Its methods may be
// called concurrently.
type Directory struct {
	options Options
	ctx     context.Context
	end     context.CancelFunc
	// slots has one element for each getent that runs.
	slots chan struct{}

	accounts cache[Account]
	members  cache[[]Group]
	gids     cache[[]uint32]
	names    cache[[]Group]

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	withNSS bool
}

// New returns a directory. The caller closes it.
func New(o Options) *Directory {
	d := &Directory{options: o.complete()}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.slots = make(chan struct{}, d.options.Processes)
	d.withNSS = d.options.Getent != ""
	for _, c := range []interface{ open(*Directory, bool) }{&d.accounts, &d.names} {
		c.open(d, true)
	}
	// A group that a user has left must not give rights for a day.
	d.members.open(d, false)
	d.gids.open(d, false)
	return d
}

// Close ends lookups that run, and waits for them.
func (d *Directory) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.running.Wait()
}

// begin notes a lookup; false after Close.
func (d *Directory) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.running.Add(1)
	}
	return !d.closed
}

// ByUID returns the account of a uid; false where the directory knows none. The error
// wraps [ErrAway], or is that of ctx.
func (d *Directory) ByUID(ctx context.Context, uid uint32) (Account, bool, error) {
	kept, err := d.accounts.get(ctx, number(uid), d.accountOf(uid))
	if err != nil {
		return Account{}, false, fmt.Errorf("looking up uid %d: %w", uid, err)
	}
	return kept.value, kept.known, nil
}

// Name returns the login of a uid for display, or "uid N". It never waits: a login that
// must be looked up first is in a later answer.
func (d *Directory) Name(uid uint32) string {
	return shown(d.accounts.peek(number(uid), d.accountOf(uid)).value, uid)
}

// NameWithin is [Directory.Name] that waits for the directory until ctx ends.
func (d *Directory) NameWithin(ctx context.Context, uid uint32) string {
	found, _, err := d.ByUID(ctx, uid)
	if err != nil {
		return d.Name(uid)
	}
	return shown(found, uid)
}

func shown(a Account, uid uint32) string {
	return cmp.Or(a.Login, "uid "+number(uid))
}

// Groups returns the groups of a uid, the primary one first, and none for a uid that
// the directory does not know. Groups without a usable name are left out. The error
// wraps [ErrAway], or is that of ctx.
func (d *Directory) Groups(ctx context.Context, uid uint32) ([]Group, error) {
	kept, err := d.members.get(ctx, number(uid), d.membership(uid))
	if err != nil {
		return nil, fmt.Errorf("looking up the groups of uid %d: %w", uid, err)
	}
	return kept.value, nil
}

// GroupNames returns the groups with these numbers, in their order. Groups without a
// usable name are left out. The error wraps [ErrAway], or is that of ctx.
func (d *Directory) GroupNames(ctx context.Context, gids []uint32) ([]Group, error) {
	kept, err := d.names.get(ctx, numbers(gids), d.groupsOf(gids))
	if err != nil {
		return nil, fmt.Errorf("looking up the names of %d groups: %w", len(gids), err)
	}
	return kept.value, nil
}

func number(id uint32) string { return strconv.FormatUint(uint64(id), 10) }
