package subordinate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/osfile"
)

// The numbers that ranges are made of. The last number of all stands for none.
const (
	first = 1 << 31
	last  = math.MaxUint32 - size
	size  = process.SubordinateIDs
)

// Options says where the table is.
type Options struct {
	// Path is the file of the table. Required.
	Path string
	// Layers is a folder on the file system that has the layers of images, such as containerd's.
	// Empty: it is not tried whether these can be id-mapped.
	Layers string
	// Taken are files such as /etc/subuid with ranges of others. Nil: /etc/subuid and /etc/subgid.
	Taken []string
}

// Table knows the ranges of users. Its methods may be called concurrently.
type Table struct {
	options Options
	mapped  func() error

	mu    sync.Mutex
	bases map[uint32]uint32 // by user
}

// Open reads the table. A file that is not there is an empty one.
func Open(o Options) (*Table, error) {
	if o.Taken == nil {
		o.Taken = []string{"/etc/subuid", "/etc/subgid"}
	}
	t := &Table{options: o, bases: map[uint32]uint32{}}
	t.mapped = sync.OnceValue(func() error {
		if o.Layers == "" {
			return nil
		}
		return process.MappedMounts(o.Layers)
	})
	data, err := os.ReadFile(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the subordinate numbers of users: %w", err)
	}
	if err := json.Unmarshal(data, &t.bases); err != nil {
		return nil, fmt.Errorf("reading the subordinate numbers of users, %s: %w: with no image running, remove it", o.Path, err)
	}
	owners := map[uint32]uint32{}
	for user, base := range t.bases {
		if other, ok := owners[base]; ok || base < first || base > last || base%size != 0 {
			return nil, fmt.Errorf("reading the subordinate numbers of users, %s: user %d has %d, as user %d has, or as none may: with no image running, remove it", o.Path, user, base, other)
		}
		owners[base] = user
	}
	return t, nil
}

// Users returns the numbers of the user namespaces of a user, or a sentence if images cannot run in one
// on this machine. The machine is asked once.
func (t *Table) Users(uid, gid uint32) (*process.Users, error) {
	if err := t.mapped(); err != nil {
		return nil, fmt.Errorf("images do not run on this machine of several users: %w", err)
	}
	base, err := t.base(uid)
	if err != nil {
		return nil, err
	}
	users := &process.Users{UID: uid, GID: gid, Base: base}
	return users, users.Check()
}

// base returns the first number of a user's range, and allots one at first.
func (t *Table) base(uid uint32) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if base, ok := t.bases[uid]; ok {
		return base, nil
	}
	taken, err := t.taken()
	if err != nil {
		return 0, err
	}
	for _, base := range t.bases {
		taken = append(taken, span{uint64(base), size})
	}
	for base := uint64(first); base <= last; base += size {
		if overlaps(taken, span{base, size}) || base <= uint64(uid) && uint64(uid) < base+size {
			continue
		}
		t.bases[uid] = uint32(base)
		if err := t.write(); err != nil {
			delete(t.bases, uid)
			return 0, err
		}
		return uint32(base), nil
	}
	return 0, fmt.Errorf("no subordinate numbers are left for user %d: all %d ranges from %d on are taken", uid, len(t.bases), first)
}

func (t *Table) write() error {
	data, err := json.Marshal(t.bases)
	if err == nil {
		err = osfile.Replace(t.options.Path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the subordinate numbers of users: %w", err)
	}
	return nil
}

// span is a range of numbers.
type span struct{ from, count uint64 }

func overlaps(taken []span, one span) bool {
	for _, s := range taken {
		if s.from < one.from+one.count && one.from < s.from+s.count {
			return true
		}
	}
	return false
}

// taken reads the ranges of others: "login:first:count" in each line.
func (t *Table) taken() ([]span, error) {
	var all []span
	for _, path := range t.options.Taken {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the subordinate numbers of the machine: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) != 3 {
				continue
			}
			from, err := strconv.ParseUint(fields[1], 10, 32)
			count, countErr := strconv.ParseUint(fields[2], 10, 32)
			if err == nil && countErr == nil {
				all = append(all, span{from, count})
			}
		}
	}
	return all, nil
}
