package data

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket/buckettest"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestInABucket keeps a store in a bucket of a service that others made.
func TestInABucket(t *testing.T) {
	const name = "muster-test-dataset"
	o, client := buckettest.Serve(t, name)
	must(t, client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}))
	b, err := backend.OpenBucket(o, "")
	must(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		var errs []error
		for o := range client.ListObjects(ctx, name, minio.ListObjectsOptions{Recursive: true}) {
			errs = append(errs, client.RemoveObject(ctx, name, o.Key, minio.RemoveObjectOptions{}))
		}
		must(t, errors.Join(append(errs, client.RemoveBucket(ctx, name))...))
	})
	s, err := Open(t.Context(), Options{Backend: bale.Over(b), Cache: t.TempDir()})
	must(t, err)
	heads := &ref.Memory{}
	d := s.Dataset(heads)
	src, dst := t.TempDir(), t.TempDir()
	files(t, src, sample())
	put(t, d, "main", Folder(src), AddOptions{})
	put(t, d, "gone", Stream("f", strings.NewReader(noise(1, 3<<20))), AddOptions{})
	must(t, d.Remove(t.Context(), branch("gone")))
	same(t, "read", sample(), held(t, d, "main"))
	_, err = view(t, d, "main").Checkout(t.Context(), dst, CheckoutOptions{})
	must(t, err)
	same(t, "checked out", sample(), folder(t, dst))
	s.slack = -10 * s.slack // as if it were later: the service tells seconds
	r, err := s.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{heads}, Grace: s.slack})
	if err != nil || r.Packs != 1 || r.Commits != 1 || r.Kept == 0 {
		t.Errorf("%+v %v", r, err)
	}
	report, err := s.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{heads}, Bytes: true})
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v %v", report, err)
	}
	joined(t, s, heads)
	must(t, s.Close())
}

// joined has packs put together there, which are read by who looks anew, too.
func joined(t *testing.T, s *Store, heads ref.Heads) {
	t.Helper()
	s.joining = joining{small: 1 << 20, least: 1, full: 1 << 20, most: 9}
	want := map[string]string{}
	for i := range 4 {
		name := fmt.Sprint("small", i)
		want[name] = noise(uint64(i), 3000)
		put(t, s.Dataset(heads), name, Stream("f", strings.NewReader(want[name])), AddOptions{})
	}
	for range 2 { // in a bale, and then loose no more
		r, err := s.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{heads}, Grace: s.slack})
		must(t, err)
		t.Logf("%+v", r)
	}
	loose := 0
	must(t, bale.Of(s.backend).Loose(t.Context(), func(backend.Info) { loose++ }))
	all, err := bale.Of(s.backend).All(t.Context())
	if err != nil || len(all) != 1 || len(all[0].Packs) < 4 || loose > 1 {
		t.Errorf("%d bales, %d packs are loose: %v", len(all), loose, err)
	}
	for name := range want {
		same(t, name, map[string]string{"f": want[name]}, held(t, s.Dataset(heads), name))
	}
}
