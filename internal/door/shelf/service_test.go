package shelf

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket/buckettest"
)

// TestMain serves buckets where a test asks for it.
func TestMain(m *testing.M) {
	buckettest.Become()
	m.Run()
}

// TestBucket keeps objects in a bucket of a service that others made.
func TestBucket(t *testing.T) {
	const name = "muster-test-bucket"
	o, _ := buckettest.Serve(t, name)
	o.Tries = 2 // what breaks off is not asked for ten times
	b, err := OpenBucket(o)
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
