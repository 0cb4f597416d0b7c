package warehouse

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket/buckettest"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestMain serves buckets where a test asks for it.
func TestMain(m *testing.M) {
	buckettest.Become()
	m.Run()
}

// TestInABucket keeps stores in a bucket of a service that others made.
func TestInABucket(t *testing.T) {
	const name = "muster-test-warehouse"
	o, client := buckettest.Serve(t, name)
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
	w, err := Open(Options{Bucket: o, Prefix: "data", Quota: 1 << 20})
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
