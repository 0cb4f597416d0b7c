package backend

import (
	"bytes"
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
	// Prefix is put before every key, such as muster/data/. Default: none.
	Prefix string
	// Region is its region. Empty: the service is asked.
	Region string
	// AccessKey and SecretKey are who asks. Both empty: as the machine says, by
	// variables or its own identity.
	AccessKey, SecretKey string
	// Tries is how often a request is made that the service cannot take just now.
	// Default: 10, with growing pauses.
	Tries int
	// Transport carries the requests. Default: one that honours the usual proxy
	// variables.
	Transport http.RoundTripper
}

// Bucket keeps objects in a bucket that speaks S3.
type Bucket struct {
	client *minio.Client
	name   string
	prefix string
	tries  int
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
	if o.Prefix != "" {
		if err := check(o.Prefix); err != nil {
			return nil, fmt.Errorf("the prefix in the bucket: %w", err)
		}
		o.Prefix = strings.TrimSuffix(o.Prefix, "/") + "/"
	}
	if o.Tries <= 0 {
		o.Tries = 10
	}
	who := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		who = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}})
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: who, Secure: u.Scheme == "https", Region: o.Region, Transport: o.Transport, MaxRetries: o.Tries,
	})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", o.Endpoint, err)
	}
	return &Bucket{client: client, name: o.Bucket, prefix: o.Prefix, tries: o.Tries}, nil
}

// Put implements [Backend]. An object is one request: it has all of its bytes or
// is not there.
func (b *Bucket) Put(ctx context.Context, key string, content []byte) error {
	if err := check(key); err != nil {
		return err
	}
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+key, bytes.NewReader(content), int64(len(content)), o)
	return b.tell("storing", key, err)
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
	for range b.tries {
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
	core := minio.Core{Client: b.client}
	body, info, _, err := core.GetObject(ctx, b.name, b.prefix+key, o)
	if minio.ToErrorResponse(err).Code == minio.InvalidRange {
		return false, fmt.Errorf("reading %s in bucket %s: %d bytes at %d: %w", key, b.name, len(into), offset, ErrShort)
	}
	if err != nil {
		return false, b.tell("reading", key, err)
	}
	if info.Size < int64(len(into)) { // of the part, as the answer's head says
		return false, errors.Join(fmt.Errorf("reading %s in bucket %s: %d bytes at %d: %w", key, b.name, len(into), offset, ErrShort), body.Close())
	}
	_, err = io.ReadFull(body, into)
	if err = errors.Join(err, body.Close()); err != nil {
		return true, fmt.Errorf("reading %s in bucket %s: %w", key, b.name, err)
	}
	return false, nil
}

// Stat implements [Backend].
func (b *Bucket) Stat(ctx context.Context, key string) (Info, error) {
	if err := check(key); err != nil {
		return Info{}, err
	}
	info, err := b.client.StatObject(ctx, b.name, b.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, b.tell("looking for", key, err)
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
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return b.tell("listing", prefix, o.Err)
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
	err := b.tell("removing", key, b.client.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
	case "XMinioStorageFull", "InsufficientStorage", "QuotaExceeded":
		return fmt.Errorf("%s %s: bucket %s has no room: make some, or collect what nobody needs (muster data gc): %w", doing, key, b.name, err)
	}
	return fmt.Errorf("%s %s in bucket %s: %w", doing, key, b.name, err)
}
