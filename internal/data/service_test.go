package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/bucket/buckettest"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestInABucket keeps a store in a bucket of a service that others made, and in one that
// now and then is too busy.
func TestInABucket(t *testing.T) {
	t.Run("at leisure", func(t *testing.T) { inABucket(t, "muster-test-dataset", func(*bucket.Options) {}) })
	t.Run("busy", func(t *testing.T) {
		refused := &atomic.Int64{}
		inABucket(t, "muster-test-busy", func(o *bucket.Options) { o.Endpoint = busy(t, o.Endpoint, refused) })
		if n := refused.Load(); n < 5 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// busy is before a service, and refuses each nineteenth request.
func busy(t *testing.T, endpoint string, refused *atomic.Int64) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	must(t, err)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which is signed
	}}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%19 != 0 {
			pass.ServeHTTP(w, r)
			return
		}
		refused.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func inABucket(t *testing.T, name string, change func(*bucket.Options)) {
	t.Helper()
	o, client := buckettest.Serve(t, name)
	change(&o)
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
