//go:build s3

package shelf

import (
	"os"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket"
)

// TestBucket runs against a service of yours: MUSTER_TEST_S3 is its address, and
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks. It makes a bucket,
// and removes it.
func TestBucket(t *testing.T) {
	endpoint := os.Getenv("MUSTER_TEST_S3")
	if endpoint == "" {
		t.Fatal("MUSTER_TEST_S3 names no S3 service: give its address, such as http://127.0.0.1:9000")
	}
	const name = "muster-test-bucket"
	b, err := OpenBucket(bucket.Options{Endpoint: endpoint, Bucket: name, Region: "us-east-1"})
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
