package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/tree"
)

// DefaultSecret is the Secret that says who copies, where none is named.
const DefaultSecret = "muster-egress"

// What a Secret says, by the names that S3 clients know.
const (
	// KeyEndpoint is the service's address. Default: Amazon's.
	KeyEndpoint = "AWS_ENDPOINT_URL"
	// KeyRegion is the bucket's region. Default: the service is asked.
	KeyRegion = "AWS_REGION"
	// KeyAccess and KeySecret are who asks. They have to be given.
	KeyAccess = "AWS_ACCESS_KEY_ID"
	KeySecret = "AWS_SECRET_ACCESS_KEY"
)

// amazon is the service where a Secret names none.
const amazon = "https://s3.amazonaws.com"

const (
	// usualAtOnce is how many files are copied at once unless the options say otherwise.
	usualAtOnce = 8
	// partSize is what the sizes of parts of large files are multiples of, each of which
	// is in memory as a whole while it is sent, and mostParts how many of them a file has
	// at most. A file of one part is sent as it is read.
	partSize  = 16 << 20
	mostParts = 10_000
)

// Options say how copies are made.
type Options struct {
	// Transport carries the requests. Default: one that honours the usual proxy
	// variables, and goes wherever it is sent.
	Transport http.RoundTripper
	// AtOnce is how many files are copied at once. Default: 8.
	AtOnce int
	// Pace is how slow a bucket may be: a copy of which it takes less is given up.
	// Default: as slow as it likes.
	Pace Pace
	// Buffers bounds what large files take of memory while they are sent, for all copies
	// that have the same. Nil: nothing does.
	Buffers *Buffers
}

// Buffers are so many bytes of memory.
type Buffers struct {
	all  int64
	left *semaphore.Weighted
}

// NewBuffers are buffers of so many bytes: of 16 MiB at least.
func NewBuffers(bytes int64) *Buffers {
	bytes = max(bytes, partSize)
	return &Buffers{all: bytes, left: semaphore.NewWeighted(bytes)}
}

// take waits until there is memory for a part of a file of this size. One whose parts
// are larger than all of it takes all of it.
func (b *Buffers) take(ctx context.Context, size int64) (free func(), err error) {
	if b == nil || size <= partSize {
		return func() {}, nil
	}
	part := (size/mostParts + partSize - 1) / partSize * partSize
	n := min(b.all, max(partSize, part))
	if err := b.left.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { b.left.Release(n) }, nil
}

// Parse reads an address.
func Parse(address string) (bucketName, prefix string, err error) {
	rest, ok := strings.CutPrefix(address, "s3://")
	bucketName, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	if !ok || bucketName == "" || prefix != "" && !fs.ValidPath(prefix) {
		return "", "", fmt.Errorf("%q: give an address such as s3://bucket/folder", address)
	}
	return bucketName, prefix, nil
}

// Target is where files are copied to.
type Target struct {
	bucket *bucket.Client
	prefix string
	o      Options
	meter  meter
}

// Open is the target of an address, with what a Secret says. Nothing is asked of it
// yet.
func Open(address string, secret map[string][]byte, o Options) (*Target, error) {
	name, prefix, err := Parse(address)
	if err != nil {
		return nil, err
	}
	said := func(key string) string { return strings.TrimSpace(string(secret[key])) }
	if said(KeyAccess) == "" || said(KeySecret) == "" {
		return nil, fmt.Errorf("the Secret has to have %s and %s, and for another service than Amazon's %s", KeyAccess, KeySecret, KeyEndpoint)
	}
	endpoint := said(KeyEndpoint)
	if endpoint == "" {
		endpoint = amazon
	}
	if o.AtOnce <= 0 {
		o.AtOnce = usualAtOnce
	}
	t := &Target{prefix: prefix, o: o}
	transport := o.Transport
	if o.Pace.In > 0 {
		if transport == nil {
			transport = http.DefaultTransport
		}
		transport = metered{transport, &t.meter}
	}
	t.bucket, err = bucket.Open(bucket.Options{Endpoint: endpoint, Bucket: name, Region: said(KeyRegion), AccessKey: said(KeyAccess), SecretKey: said(KeySecret), Tries: 3, Transport: transport})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Copied is what a copy came to.
type Copied struct {
	// Files and Bytes were copied; Links were left out, since a bucket has none.
	Files, Bytes, Links int64
}

// Copy copies every file of a commit that is not as it is in the one that was copied
// before, if there was one, each under its path below the target's prefix. What is
// no more stays there: others may have written it. It may be made again after an
// error.
func (t *Target) Copy(ctx context.Context, before, now *data.View) (Copied, error) {
	var files, bytes, links atomic.Int64
	ctx, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop(nil)
	if t.o.Pace.In > 0 {
		watching.Go(func() { t.meter.watch(ctx, t.o.Pace, stop) })
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(t.o.AtOnce)
	err := data.Diff(within, before, now, func(c data.Change) error {
		switch {
		case c.To == nil:
			return nil
		case c.To.Kind != tree.File:
			links.Add(1)
			return nil
		}
		at := c.Path
		group.Go(func() error {
			n, err := t.file(within, now, at)
			if err == nil {
				files.Add(1)
				bytes.Add(n)
				t.meter.move(fileCounts)
			}
			return err
		})
		return within.Err()
	})
	// The first that went wrong ended the others.
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	if slow := context.Cause(ctx); err != nil && errors.Is(slow, errSlow) {
		err = slow
	}
	return Copied{Files: files.Load(), Bytes: bytes.Load(), Links: links.Load()}, err
}

// file copies one.
func (t *Target) file(ctx context.Context, from *data.View, name string) (n int64, err error) {
	file, err := from.Open(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("copying %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	key := path.Join(t.prefix, name)
	free, err := t.o.Buffers.take(ctx, file.Size())
	if err != nil {
		return 0, err
	}
	defer free()
	err = t.bucket.Put(ctx, key, io.NewSectionReader(file, 0, file.Size()), file.Size(), minio.PutObjectOptions{SendContentMd5: true})
	return file.Size(), t.bucket.Explain("copying to", key, err)
}
