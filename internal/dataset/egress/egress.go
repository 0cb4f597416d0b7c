package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

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

// atOnce is how many files are copied at once.
const atOnce = 8

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
}

// Open is the target of an address, with what a Secret says. Nothing is asked of it
// yet.
func Open(address string, secret map[string][]byte) (*Target, error) {
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
	client, err := bucket.Open(bucket.Options{Endpoint: endpoint, Bucket: name, Region: said(KeyRegion), AccessKey: said(KeyAccess), SecretKey: said(KeySecret), Tries: 3})
	if err != nil {
		return nil, err
	}
	return &Target{bucket: client, prefix: prefix}, nil
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
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
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
			}
			return err
		})
		return within.Err()
	})
	// The first that went wrong ended the others.
	if failed := group.Wait(); failed != nil {
		err = failed
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
	_, err = t.bucket.Client.PutObject(ctx, t.bucket.Name, key, io.NewSectionReader(file, 0, file.Size()), file.Size(), minio.PutObjectOptions{SendContentMd5: true})
	return file.Size(), t.bucket.Explain("copying to", key, err)
}
