package egress

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
)

// shelf is a backend that takes its time.
type shelf struct {
	backend.Memory
	pause atomic.Int64
}

// ReadAt implements [backend.Backend].
func (s *shelf) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	time.Sleep(time.Duration(s.pause.Load()))
	return s.Memory.ReadAt(ctx, key, offset, into)
}

// stub is a bucket without a network, which takes its time.
type stub struct {
	// taking is how long it waits before it reads a request, answering how long before
	// it answers one, and saying how long before the body of an answer comes.
	taking, answering, saying time.Duration
	// assembling is how long it takes to make a file of its parts.
	assembling time.Duration
}

// tarry waits for as long as somebody waits for the bucket.
func tarry(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// tardy is a body that is late.
type tardy struct {
	io.Reader
	ctx  context.Context
	late time.Duration
}

// Read implements [io.Reader].
func (t *tardy) Read(p []byte) (int, error) {
	if err := tarry(t.ctx, t.late); err != nil {
		return 0, err
	}
	t.late = 0
	return t.Reader.Read(p)
}

// Close implements [io.Closer].
func (t *tardy) Close() error { return nil }

// RoundTrip implements [http.RoundTripper].
func (s stub) RoundTrip(r *http.Request) (*http.Response, error) {
	says, before := "", s.answering
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
		says = "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
	case r.Method == http.MethodPost:
		says, before = "<CompleteMultipartUploadResult><Bucket>backup</Bucket></CompleteMultipartUploadResult>", s.assembling
	}
	if err := tarry(r.Context(), s.taking); err != nil {
		return nil, err
	}
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	if err := tarry(r.Context(), before); err != nil {
		return nil, err
	}
	head := http.Header{"Etag": {`"e"`}, "Content-Type": {"application/xml"}}
	body := &tardy{strings.NewReader(xml.Header + says), r.Context(), s.saying}
	return &http.Response{StatusCode: http.StatusOK, Header: head, Body: body, ContentLength: -1, Request: r}, nil
}

// The pace is the bucket's: what else takes long is not held against it.
func TestPace(t *testing.T) {
	const small, large = 100, partSize + 1<<20
	keys := map[string][]byte{KeyAccess: []byte("a"), KeySecret: []byte("s"), KeyRegion: []byte("r"), KeyEndpoint: []byte("http://bucket.test")}
	for name, c := range map[string]struct {
		bucket stub
		size   int64
		reads  time.Duration // how long a read of the store takes
		queue  time.Duration // how long others have the memory for parts
		says   string        // why it is given up; empty: it is not
	}{
		"nothing takes long":                    {size: small},
		"others have the memory for long":       {size: large, queue: time.Hour},
		"the store is slow":                     {size: small, reads: 5 * time.Minute},
		"a file of several reads":               {size: large, reads: 5 * time.Minute},
		"the bucket is slow, as it may":         {size: small, bucket: stub{answering: time.Minute}},
		"parts are made one file":               {size: large, bucket: stub{assembling: 9 * time.Minute}},
		"parts are not made one file":           {size: large, bucket: stub{assembling: 11 * time.Minute}, says: "did not make it of them within 10m0s"},
		"the bucket takes nothing":              {size: small, bucket: stub{taking: time.Hour}, says: "it took 0 bytes in 2m0s"},
		"the bucket takes nothing of a part":    {size: large, bucket: stub{taking: time.Hour}, says: "it took 0 bytes in 2m0s"},
		"the bucket does not answer":            {size: small, bucket: stub{answering: time.Hour}, says: "bytes in 2m0s in which it was waited for"},
		"the bucket begins to answer":           {size: large, bucket: stub{saying: time.Hour}, says: "it took 0 bytes in 2m0s"},
		"the bucket and what else is are slow":  {size: small, reads: 5 * time.Minute, bucket: stub{answering: time.Hour}, says: "bytes in 2m0s in which it was waited for"},
		"others have memory, and a slow bucket": {size: large, queue: time.Hour, bucket: stub{taking: time.Hour}, says: "it took 0 bytes in 2m"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := &shelf{}
				now := commit(t, from, c.size)
				from.pause.Store(int64(c.reads))
				buffers := NewBuffers(partSize)
				if c.queue > 0 {
					free, err := buffers.take(t.Context(), large)
					if err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(c.queue, free)
				}
				target, err := Open("s3://backup", keys, Options{Transport: c.bucket, Pace: Pace{Bytes: 1 << 20, In: 2 * time.Minute}, Buffers: buffers})
				if err != nil {
					t.Fatal(err)
				}
				copied, err := target.Copy(t.Context(), nil, now)
				switch {
				case c.says == "" && (err != nil || copied.Bytes != c.size):
					t.Errorf("%+v: %v", copied, err)
				case c.says != "" && (!errors.Is(err, errSlow) || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%v, want %q", err, c.says)
				}
				if target.meter.waits != 0 {
					t.Errorf("%d requests wait when all is over", target.meter.waits)
				}
			})
		})
	}
}

// commit stores a file.
func commit(t *testing.T, in backend.Backend, size int64) *data.View {
	t.Helper()
	store, err := data.Open(t.Context(), data.Options{Backend: in})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	set := store.Dataset(&ref.Memory{})
	session, err := set.Begin(t.Context(), "main", data.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	noise := io.LimitReader(rand.NewChaCha8([32]byte{}), size)
	if err := session.Add(t.Context(), data.Stream("a", noise), data.AddOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Commit(t.Context(), data.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	now, err := set.At(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// While the body of a request is read, nobody waits for the bucket.
func TestBodiesThatAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		body := &tardy{strings.NewReader("some"), t.Context(), time.Hour}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://bucket.test/backup/a", body)
		if err != nil {
			t.Fatal(err)
		}
		bucket := stub{taking: time.Second, answering: 2 * time.Second, saying: 4 * time.Second}
		response, err := metered{bucket, m}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if moved, waited := m.read(); moved != 4 || waited != 7*time.Second {
			t.Errorf("%d bytes in %s, want 4 in 7 seconds", moved, waited)
		}
	})
}

// However requests come, wait and end: what is waited is the time in which one or more
// do, once.
func TestMeterProperties(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			m := &meter{}
			waits := make([]*wait, 5)
			going := make([]bool, len(waits))
			for i := range waits {
				waits[i] = &wait{meter: m}
			}
			var want time.Duration
			for range 200 {
				i := random.IntN(len(waits))
				switch random.IntN(5) {
				case 0:
					waits[i].end()
					waits[i].set(true) // as of a body that is read when all is over
					waits[i], going[i] = &wait{meter: m}, false
				default:
					going[i] = random.IntN(2) == 0
					waits[i].set(going[i])
				}
				d := time.Duration(random.IntN(1000)) * time.Millisecond
				time.Sleep(d)
				if fmt.Sprint(going) != fmt.Sprint(make([]bool, len(going))) {
					want += d
				}
				if _, waited := m.read(); waited != want {
					t.Fatalf("seed %d: %s were waited, and the meter says %s", seed, want, waited)
				}
			}
		})
	}
}
