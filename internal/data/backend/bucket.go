package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket"
)

// Bucket keeps objects in a bucket that speaks S3.
type Bucket struct {
	client *bucket.Client
	prefix string
}

// OpenBucket keeps objects in a bucket, below a prefix such as muster/data, or an
// empty one. Nothing is asked of the bucket yet.
func OpenBucket(o bucket.Options, prefix string) (*Bucket, error) {
	client, err := bucket.Open(o)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		if err := check(prefix); err != nil {
			return nil, fmt.Errorf("the prefix in the bucket: %w", err)
		}
		prefix = strings.TrimSuffix(prefix, "/") + "/"
	}
	return &Bucket{client: client, prefix: prefix}, nil
}

// Put implements [Backend]. An object is one request: it has all of its bytes or
// is not there.
func (b *Bucket) Put(ctx context.Context, key string, content []byte) error {
	if err := check(key); err != nil {
		return err
	}
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	_, err := b.client.Client.PutObject(ctx, b.client.Name, b.prefix+key, bytes.NewReader(content), int64(len(content)), o)
	return b.client.Explain("storing", key, err)
}

// ReadAt implements [Backend]. An answer that breaks off is asked for again.
func (b *Bucket) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if err := check(key); err != nil {
		return err
	}
	if len(into) == 0 {
		_, err := b.Stat(ctx, key)
		return err
	}
	var err error
	for range b.client.Tries {
		var again bool
		if again, err = b.readAt(ctx, key, offset, into); err == nil || !again || ctx.Err() != nil {
			break
		}
	}
	return err
}

// readAt asks once, and says whether it is worth asking again: where the service
// answered and its answer broke off.
func (b *Bucket) readAt(ctx context.Context, key string, offset int64, into []byte) (bool, error) {
	var o minio.GetObjectOptions
	if err := o.SetRange(offset, offset+int64(len(into))-1); err != nil {
		return false, fmt.Errorf("reading %s: %w", key, err)
	}
	body, info, _, err := b.client.GetObject(ctx, b.client.Name, b.prefix+key, o)
	if minio.ToErrorResponse(err).Code == minio.InvalidRange {
		return false, fmt.Errorf("reading %s in bucket %s: %d bytes at %d: %w", key, b.client.Name, len(into), offset, ErrShort)
	}
	if err != nil {
		return false, b.client.Explain("reading", key, err)
	}
	if info.Size < int64(len(into)) { // of the part, as the answer's head says
		return false, errors.Join(fmt.Errorf("reading %s in bucket %s: %d bytes at %d: %w", key, b.client.Name, len(into), offset, ErrShort), body.Close())
	}
	_, err = io.ReadFull(body, into)
	if err = errors.Join(err, body.Close()); err != nil {
		return true, fmt.Errorf("reading %s in bucket %s: %w", key, b.client.Name, err)
	}
	return false, nil
}

// Stat implements [Backend].
func (b *Bucket) Stat(ctx context.Context, key string) (Info, error) {
	if err := check(key); err != nil {
		return Info{}, err
	}
	info, err := b.client.StatObject(ctx, b.client.Name, b.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, b.client.Explain("looking for", key, err)
	}
	return Info{Key: key, Size: info.Size, Stored: info.LastModified}, nil
}

// List implements [Backend].
func (b *Bucket) List(ctx context.Context, prefix string, see func(Info) error) error {
	if err := check(prefix); err != nil {
		return err
	}
	if !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("listing %q: a prefix ends in a slash", prefix)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.client.Client.ListObjects(ctx, b.client.Name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return b.client.Explain("listing", prefix, o.Err)
		}
		if err := see(Info{Key: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size, Stored: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Delete implements [Backend].
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := check(key); err != nil {
		return err
	}
	err := b.client.Explain("removing", key, b.client.RemoveObject(ctx, b.client.Name, b.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
