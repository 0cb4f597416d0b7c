package shelf

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket"
)

// Bucket is a shelf in a bucket that speaks S3.
type Bucket struct {
	client *bucket.Client
}

// OpenBucket is a shelf in a bucket. Nothing is asked of the bucket yet.
func OpenBucket(o bucket.Options) (*Bucket, error) {
	client, err := bucket.Open(o)
	if err != nil {
		return nil, err
	}
	return &Bucket{client: client}, nil
}

// Put implements [Shelf].
func (b *Bucket) Put(ctx context.Context, key string, size int64, content io.Reader) error {
	if err := check(key); err != nil {
		return err
	}
	err := b.client.Put(ctx, key, content, size, minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return b.client.Explain("storing", key, err)
}

// Get implements [Shelf].
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := check(key); err != nil {
		return nil, err
	}
	body, _, _, err := b.client.GetObject(ctx, b.client.Name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.client.Explain("reading", key, err)
	}
	return body, nil
}

// Stat implements [Shelf].
func (b *Bucket) Stat(ctx context.Context, key string) (Info, error) {
	if err := check(key); err != nil {
		return Info{}, err
	}
	info, err := b.client.StatObject(ctx, b.client.Name, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, b.client.Explain("looking for", key, err)
	}
	return Info{Key: key, Size: info.Size, Stored: info.LastModified}, nil
}

// Delete implements [Shelf].
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := check(key); err != nil {
		return err
	}
	err := b.client.Explain("removing", key, b.client.RemoveObject(ctx, b.client.Name, key, minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List implements [Shelf].
func (b *Bucket) List(ctx context.Context, prefix string, see func(Info) error) error {
	if err := check(prefix); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.client.Client.ListObjects(ctx, b.client.Name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return b.client.Explain("listing", prefix, o.Err)
		}
		if err := see(Info{Key: o.Key, Size: o.Size, Stored: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}
