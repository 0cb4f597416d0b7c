package bucket

import (
	"context"
	"crypto/x509"
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

// Options say which bucket, and how it is reached.
type Options struct {
	// Endpoint is the address of the service, such as https://s3.example.com.
	Endpoint string
	// Bucket is its name. It has to be there.
	Bucket string
	// Region is its region. Empty: the service is asked.
	Region string
	// AccessKey and SecretKey are who asks. Both empty: as the machine says, by
	// variables or its own identity.
	AccessKey, SecretKey string
	// Tries is how often a request is made that the service cannot take just now.
	// Default: 10, with growing pauses.
	Tries int
	// Authorities are whose certificates are believed. Default: the system's.
	Authorities *x509.CertPool
	// Transport carries the requests, and knows whom to believe. Default: one that
	// honours the usual proxy variables.
	Transport http.RoundTripper
}

// usualTries is how often a request is made unless the options say otherwise.
const usualTries = 10

// Client asks one bucket. It may be used by many at once.
type Client struct {
	minio.Core
	// Once makes each request once: for what can be read once.
	Once *minio.Client
	// Name is the name of the bucket.
	Name string
	// Tries is how often a request is made at most.
	Tries int
}

// Open makes a client for a bucket. Nothing is asked of it yet.
func Open(o Options) (*Client, error) {
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.User != nil:
		return nil, fmt.Errorf("the store's endpoint %q: give an address such as https://s3.example.com, without a path or a user", o.Endpoint)
	case o.Bucket == "":
		return nil, errors.New("the store has an endpoint and no bucket: name the bucket")
	case (o.AccessKey == "") != (o.SecretKey == ""):
		return nil, errors.New("the store's credentials are half there: give the access key and the secret key, or neither")
	}
	if o.Tries <= 0 {
		o.Tries = usualTries
	}
	who := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		who = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.IAM{}})
	}
	if o.Transport == nil {
		usual, err := minio.DefaultTransport(u.Scheme == "https")
		if err != nil {
			return nil, fmt.Errorf("making a client for %s: %w", o.Endpoint, err)
		}
		if usual.TLSClientConfig != nil && o.Authorities != nil {
			usual.TLSClientConfig.RootCAs = o.Authorities
		}
		o.Transport = usual
	}
	open := func(tries int) (*minio.Client, error) {
		return minio.New(u.Host, &minio.Options{
			Creds: who, Secure: u.Scheme == "https", Region: o.Region, Transport: o.Transport, MaxRetries: tries,
		})
	}
	client, err := open(o.Tries)
	once, failed := open(1)
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", o.Endpoint, err)
	}
	return &Client{Core: minio.Core{Client: client}, Once: once, Name: o.Bucket, Tries: o.Tries}, nil
}

// emptySum is the SHA-256 of nothing.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Put stores an object of a size, by options of the library's. It is asked again while
// the service cannot take it just now, where the content can be read again.
//
// An empty object is not sent in signed chunks as others are, for that is their end alone:
// versitygw 1.7 leaves it unread, and takes it for the next request of the connection.
func (c *Client) Put(ctx context.Context, key string, content io.Reader, size int64, o minio.PutObjectOptions) error {
	var err error
	if size == 0 {
		o.DisableContentSha256 = true
		_, err = c.PutObject(ctx, c.Name, key, http.NoBody, 0, "", emptySum, o)
	} else {
		_, err = c.Client.PutObject(ctx, c.Name, key, content, size, o)
	}
	return err
}

// Explain is what the bucket's refusal means, and of what: doing and key are what
// was asked of it. That an object is not there wraps [fs.ErrNotExist].
func (c *Client) Explain(doing, key string, err error) error {
	if err == nil {
		return nil
	}
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey:
		return fmt.Errorf("%s %s in bucket %s: %w", doing, key, c.Name, fs.ErrNotExist)
	case minio.NoSuchBucket:
		return fmt.Errorf("%s %s: there is no bucket %s: make it, or name another", doing, key, c.Name)
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return fmt.Errorf("%s %s: bucket %s does not let Muster in: check the access key, the secret key and the bucket's policy: %w", doing, key, c.Name, err)
	case "XMinioStorageFull", "InsufficientStorage", "QuotaExceeded":
		return fmt.Errorf("%s %s: bucket %s has no room: make some, or remove what nobody needs (muster data gc, muster prune): %w", doing, key, c.Name, err)
	}
	return fmt.Errorf("%s %s in bucket %s: %w", doing, key, c.Name, err)
}
