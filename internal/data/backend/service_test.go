//go:build s3

package backend_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/contract"
)

// TestBucket runs against a service of yours: MUSTER_TEST_S3 is its address, and
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks. It makes a bucket,
// and removes it.
func TestBucket(t *testing.T) {
	endpoint := os.Getenv("MUSTER_TEST_S3")
	if endpoint == "" {
		t.Fatal("MUSTER_TEST_S3 names no S3 service: give its address, such as http://127.0.0.1:9000")
	}
	const name = "muster-test-data"
	client, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{Creds: credentials.NewEnvAWS(), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := backend.OpenBucket(bucket.Options{Endpoint: endpoint, Bucket: name, Region: "us-east-1"}, "some/where")
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
