package shelf

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// Shelf keeps objects. Its methods may be called from several goroutines. A key
// that nothing is under is an error that wraps [fs.ErrNotExist].
type Shelf interface {
	// Put stores size bytes of what is read under a key, in the place of what
	// was there. Once it returns they survive a loss of power.
	Put(ctx context.Context, key string, size int64, content io.Reader) error
	// Get opens an object; reading is bounded by ctx.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Stat says of an object what List says.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes an object; one that is not there is fine.
	Delete(ctx context.Context, key string) error
	// List calls see with every object whose key begins with a prefix that ends
	// in a slash, until it returns an error.
	List(ctx context.Context, prefix string, see func(Info) error) error
}

// Info is what is known of an object without reading it.
type Info struct {
	Key string
	// Size is in bytes.
	Size int64
	// Stored is when it was put there last, by the shelf's clock.
	Stored time.Time
}

// check refuses keys that could mean something else to a file system.
func check(key string) error {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./"
	for part := range strings.SplitSeq(strings.TrimSuffix(key, "/"), "/") {
		if part == "" || part[0] == '.' || len(part) > 255 {
			return fmt.Errorf("%q is not a key of an object", key)
		}
	}
	if strings.Trim(key, allowed) != "" || path.IsAbs(key) {
		return fmt.Errorf("%q is not a key of an object", key)
	}
	return nil
}
