package shelf

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestBucket runs against a service of yours: MUSTER_TEST_S3 is its address, and
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks. It makes a bucket,
// and removes it.
func TestBucket(t *testing.T) {
	endpoint := os.Getenv("MUSTER_TEST_S3")
	if endpoint == "" {
		t.Skip("MUSTER_TEST_S3 names no S3 service")
	}
	const name = "muster-test-bucket"
	b, err := OpenBucket(BucketOptions{Endpoint: endpoint, Bucket: name, Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stat(t.Context(), "code/x"); err == nil {
		t.Fatal("the bucket is there before it is made")
	}
	if err := b.Put(t.Context(), "code/x", 1, strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "there is no bucket "+name) {
		t.Errorf("without a bucket: %v", err)
	}
	if err := b.client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	keepsObjects(t, b)
	err = b.List(t.Context(), "code/", func(i Info) error { return b.Delete(t.Context(), i.Key) })
	if err == nil {
		err = b.client.RemoveBucket(t.Context(), name)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestBucketOptionsThatMakeNoSense(t *testing.T) {
	for name, o := range map[string]BucketOptions{
		"no scheme":    {Endpoint: "s3.test", Bucket: "b"},
		"a path":       {Endpoint: "https://s3.test/b", Bucket: "b"},
		"a user":       {Endpoint: "https://me:secret@s3.test", Bucket: "b"},
		"no bucket":    {Endpoint: "https://s3.test"},
		"half of keys": {Endpoint: "https://s3.test", Bucket: "b", AccessKey: "a"},
	} {
		if _, err := OpenBucket(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestWhoIsNotLetIn says what to check, and not the keys.
func TestWhoIsNotLetIn(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>`))
	}))
	t.Cleanup(service.Close)
	b, err := OpenBucket(BucketOptions{Endpoint: service.URL, Bucket: "code", Region: "x", AccessKey: "me", SecretKey: "hush-hush"})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(t.Context(), "code/x", 1, strings.NewReader("x"))
	if err == nil || !strings.Contains(err.Error(), "check the access key") || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}
