//go:build s3

package warehouse

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestInABucket runs against a service of yours: MUSTER_TEST_S3 is its address, and
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks. It makes a bucket, and
// removes it.
func TestInABucket(t *testing.T) {
	endpoint := os.Getenv("MUSTER_TEST_S3")
	if endpoint == "" {
		t.Fatal("MUSTER_TEST_S3 names no S3 service: give its address, such as http://127.0.0.1:9000")
	}
	const name = "muster-test-warehouse"
	client, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{Creds: credentials.NewEnvAWS(), Region: "us-east-1"})
	must(t, err)
	must(t, client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for o := range client.ListObjects(ctx, name, minio.ListObjectsOptions{Recursive: true}) {
			if !strings.HasPrefix(o.Key, "data/") {
				t.Errorf("%s is not below the prefix", o.Key)
			}
			must(t, client.RemoveObject(ctx, name, o.Key, minio.RemoveObjectOptions{}))
		}
		must(t, client.RemoveBucket(ctx, name))
	})
	w, err := Open(Options{Bucket: bucket.Options{Endpoint: endpoint, Bucket: name, Region: "us-east-1"}, Prefix: "data", Quota: 1 << 20})
	must(t, err)
	if all, err := w.Namespaces(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v %v", all, err)
	}
	ada, bob := &ref.Memory{}, &ref.Memory{}
	put(t, w, "ada", "the same", ada)
	put(t, w, "bob", "the same", bob)
	all, err := w.Namespaces(t.Context())
	slices.Sort(all)
	if err != nil || !slices.Equal(all, []string{"ada", "bob"}) {
		t.Errorf("%v %v", all, err)
	}
	must(t, w.Reserve(t.Context(), "ada", 1<<19))
	if gone, err := w.Abandon(t.Context(), "ada"); err != nil || gone != 0 {
		t.Errorf("%v %v", gone, err)
	}
	if gone, err := w.Abandon(t.Context(), "ada"); err != nil || gone < 0 {
		t.Errorf("%v %v", gone, err)
	}
	must(t, w.Claim(t.Context(), "ada"))
	report, err := w.Collect(t.Context(), "ada", data.CollectOptions{Heads: []ref.Heads{ada}, DryRun: true})
	if err != nil || report.Packs > 0 || report.Kept == 0 {
		t.Errorf("%+v %v", report, err)
	}
	store, err := w.Store(t.Context(), "bob")
	must(t, err)
	if _, err := store.Dataset(bob).At(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	if _, err := store.Dataset(ada).At(t.Context(), "main"); err == nil {
		t.Error("what is ada's is found in the store of bob")
	}
}
