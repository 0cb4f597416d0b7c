package backend_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket/buckettest"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/contract"
)

// TestMain serves buckets where a test asks for it.
func TestMain(m *testing.M) {
	buckettest.Become()
	m.Run()
}

// TestBucket keeps objects in a bucket of a service that others made.
func TestBucket(t *testing.T) {
	const name = "muster-test-data"
	o, client := buckettest.Serve(t, name)
	b, err := backend.OpenBucket(o, "some/where")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "a/x", nil); err == nil || !strings.Contains(err.Error(), "there is no bucket "+name) {
		t.Errorf("without a bucket: %v", err)
	}
	if err := client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for o := range client.ListObjects(ctx, name, minio.ListObjectsOptions{Recursive: true}) {
			if !strings.HasPrefix(o.Key, "some/where/") {
				t.Errorf("%s is not below the prefix", o.Key)
			}
			if err := client.RemoveObject(ctx, name, o.Key, minio.RemoveObjectOptions{}); err != nil {
				t.Error(err)
			}
		}
		if err := client.RemoveBucket(ctx, name); err != nil {
			t.Error(err)
		}
	})
	contract.Run(t, b)
	contract.RunStreams(t, b)
	below, err := b.Below("further")
	if err != nil {
		t.Fatal(err)
	}
	if err := below.Put(t.Context(), "a/x", nil); err != nil {
		t.Fatal(err)
	}
	folders, err := b.Folders(t.Context())
	if err != nil || !slices.Contains(folders, "further") || !slices.Contains(folders, "keep") || slices.Contains(folders, "a") {
		t.Errorf("%v %v", folders, err)
	}
}
