package shelf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// BucketOptions say which bucket, and how it is reached.
type BucketOptions struct {
	// Endpoint is the address of the service, such as https://s3.example.com.
	Endpoint string
	// Bucket is its name. It has to be there.
	Bucket string
	// Region is its region. Empty: the service is asked.
	Region string
	// AccessKey and SecretKey are who asks. Both empty: as the machine says, by
	// variables or its own identity.
	AccessKey, SecretKey string
	// Transport carries the requests. Default: one that honours the usual proxy
	// variables.
	Transport http.RoundTripper
}

// Bucket is a shelf in a bucket that speaks S3.
type Bucket struct {
	client *minio.Client
	name   string
}

// OpenBucket makes a client for a bucket. Nothing is asked of it yet.
func OpenBucket(o BucketOptions) (*Bucket, error) {
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.User != nil:
		return nil, fmt.Errorf("the store's endpoint %q: give an address such as https://s3.example.com, without a path or a user", o.Endpoint)
	case o.Bucket == "":
		return nil, errors.New("the store has an endpoint and no bucket: name the bucket")
	case (o.AccessKey == "") != (o.SecretKey == ""):
		return nil, errors.New("the store's credentials are half there: give the access key and the secret key, or neither")
	}
	who := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		who = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}})
	}
	client, err := minio.New(u.Host, &minio.Options{Creds: who, Secure: u.Scheme == "https", Region: o.Region, Transport: o.Transport})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", o.Endpoint, err)
	}
	return &Bucket{client: client, name: o.Bucket}, nil
}

// Put implements [Shelf].
func (b *Bucket) Put(ctx context.Context, key string, size int64, content io.Reader) error {
	if err := check(key); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, b.name, key, content, size, minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return b.tell("storing", key, err)
}

// Get implements [Shelf].
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := check(key); err != nil {
		return nil, err
	}
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.tell("reading", key, err)
	}
	return body, nil
}

// Stat implements [Shelf].
func (b *Bucket) Stat(ctx context.Context, key string) (Info, error) {
	if err := check(key); err != nil {
		return Info{}, err
	}
	info, err := b.client.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, b.tell("looking for", key, err)
	}
	return Info{Key: key, Size: info.Size, Stored: info.LastModified}, nil
}

// Delete implements [Shelf].
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := check(key); err != nil {
		return err
	}
	err := b.tell("removing", key, b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
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
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return b.tell("listing", prefix, o.Err)
		}
		if err := see(Info{Key: o.Key, Size: o.Size, Stored: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// tell says what was being done, and makes an answer that nothing is there one
// that callers know.
func (b *Bucket) tell(doing, key string, err error) error {
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey:
		return fmt.Errorf("%s %s in bucket %s: %w", doing, key, b.name, fs.ErrNotExist)
	case minio.NoSuchBucket:
		return fmt.Errorf("%s %s: there is no bucket %s: make it, or name another", doing, key, b.name)
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return fmt.Errorf("%s %s: bucket %s does not let Muster in: check the access key, the secret key and the bucket's policy: %w", doing, key, b.name, err)
	}
	return fmt.Errorf("%s %s in bucket %s: %w", doing, key, b.name, err)
}
