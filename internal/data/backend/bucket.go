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
	return (&Bucket{client: client}).Below(prefix)
}

// Below keeps objects in the same bucket, below a further prefix.
func (b *Bucket) Below(prefix string) (*Bucket, error) {
	if prefix == "" {
		return b, nil
	}
	if err := check(prefix); err != nil {
		return nil, fmt.Errorf("the prefix in the bucket: %w", err)
	}
	return &Bucket{client: b.client, prefix: b.prefix + strings.TrimSuffix(prefix, "/") + "/"}, nil
}

// Folders are the first parts of all keys that have several, each once.
func (b *Bucket) Folders(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var found []string
	for o := range b.client.Client.ListObjects(ctx, b.client.Name, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			return nil, b.client.Explain("listing", b.prefix, o.Err)
		}
		if name, is := strings.CutSuffix(strings.TrimPrefix(o.Key, b.prefix), "/"); is {
			found = append(found, name)
		}
	}
	return found, ctx.Err()
}

// Put implements [Backend]. An object is one request: it has all of its bytes or
// is not there.
func (b *Bucket) Put(ctx context.Context, key string, content []byte) error {
	if err := check(key); err != nil {
		return err
	}
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	err := b.client.Put(ctx, b.prefix+key, bytes.NewReader(content), int64(len(content)), o)
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
	body, err := b.Open(ctx, key, offset, int64(len(into)))
	if err != nil {
		return false, err
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
