package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrShort is wrapped by errors of reads past the end of an object.
var ErrShort = errors.New("the object is shorter than what is asked of it")

// Info is what is known of an object without reading it.
type Info struct {
	Key string
	// Size is its length in bytes.
	Size int64
	// Stored is when it was put there last, by the backend's own clock.
	Stored time.Time
}

// Backend keeps objects by key. All of it may be called at once by many, also
// from several processes.
type Backend interface {
	// Put stores content under a key, in place of what is there. When it returns
	// nil, the object is durable; when it returns an error, the key has what it had
	// before or all of the new content.
	Put(ctx context.Context, key string, content []byte) error
	// ReadAt fills all of into with the bytes at an offset. The error wraps
	// [io/fs.ErrNotExist] where there is no object and [ErrShort] where it ends
	// before.
	ReadAt(ctx context.Context, key string, offset int64, into []byte) error
	// Stat looks for an object. The error wraps [io/fs.ErrNotExist] where there is
	// none.
	Stat(ctx context.Context, key string) (Info, error)
	// List shows every object whose key begins with a prefix, which ends in a
	// slash, in no particular order, until see returns an error, which it returns.
	List(ctx context.Context, prefix string, see func(Info) error) error
	// Delete removes an object. One that is not there is no error. When it returns
	// nil, the removal is durable.
	Delete(ctx context.Context, key string) error
}

// Fleeting is a backend that is faster where an object need not outlive the power of
// the machine: leases, whose holders do not either.
type Fleeting interface {
	Backend
	// PutFleeting is Put for an object that may be gone, or have any content, once
	// the machine has lost its power. Until then everybody finds it whole.
	PutFleeting(ctx context.Context, key string, content []byte) error
	// DeleteFleeting is Delete for an object that may be there again then.
	DeleteFleeting(ctx context.Context, key string) error
}

// Follower is a backend that gets on with an object while what has to be there before
// it is not yet.
type Follower interface {
	Backend
	// PutAfter calls first, and then puts the object, as [PutAfter] does. What it does
	// meanwhile nobody sees.
	PutAfter(ctx context.Context, key string, content []byte, first func() error) error
}

// PutAfter puts an object once first has returned nil, so that nobody finds it without
// what first does. An error of first is the answer, and nothing is put.
func PutAfter(ctx context.Context, b Backend, key string, content []byte, first func() error) error {
	if f, ok := b.(Follower); ok {
		return f.PutAfter(ctx, key, content, first)
	}
	if err := first(); err != nil {
		return err
	}
	return b.Put(ctx, key, content)
}

// Read is a whole object.
func Read(ctx context.Context, b Backend, key string) ([]byte, error) {
	info, err := b.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	content := make([]byte, info.Size)
	if err := b.ReadAt(ctx, key, 0, content); err != nil {
		return nil, err
	}
	return content, nil
}

// check refuses what is no key, so that no key leads out of a folder.
func check(key string) error {
	for part := range strings.SplitSeq(strings.TrimSuffix(key, "/"), "/") {
		if part == "" || part[0] == '.' || strings.ContainsFunc(part, strange) {
			return fmt.Errorf("%q is no key: use letters, digits, dots, dashes and underscores, parted by slashes, and let no part begin with a dot", key)
		}
	}
	return nil
}

func strange(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
		return false
	}
	return true
}
