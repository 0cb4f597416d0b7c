package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// world is datasets and keys in memory.
type world struct {
	mu       sync.Mutex
	datasets map[placeName]*ref.Memory
	grants   map[string]Grant
	refused  map[Verb]bool
}

// Datasets implements [Catalog].
func (w *world) Datasets(_ context.Context, namespace string) ([]Dataset, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Dataset
	for name := range w.datasets {
		if name.namespace == namespace {
			all = append(all, Dataset{Name: name.dataset, Made: time.Unix(1e9, 0)})
		}
	}
	slices.SortFunc(all, func(a, b Dataset) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return all, nil
}

// Heads implements [Catalog].
func (w *world) Heads(namespace, name string) ref.Heads {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.datasets[placeName{namespace, name}]; h != nil {
		return h
	}
	return gone{}
}

// gone are the heads of a dataset that is not there.
type gone struct{}

func (gone) Get(context.Context, ref.Name) (digest.ID, error) { return digest.ID{}, ErrNoDataset }

func (gone) List(context.Context) (map[ref.Name]digest.ID, error) { return nil, ErrNoDataset }

func (gone) Swap(context.Context, ...ref.Move) error { return ErrNoDataset }

// Grant implements [Keyring].
func (w *world) Grant(_ context.Context, key string) (Grant, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g, ok := w.grants[key]
	if !ok {
		return g, ErrNoKey
	}
	return g, nil
}

// May implements [Keyring].
func (w *world) May(_ context.Context, _ Grant, verb Verb, _ string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.refused[verb], nil
}

// rig is a gateway that serves.
type rig struct {
	*world
	*Gateway
	bytes   backend.Streamer
	client  *minio.Core
	address string
	stop    func()
}

// newRig serves one dataset, digits in namespace team, from memory.
func newRig(t *testing.T) *rig {
	t.Helper()
	w := &world{
		datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}, {"other", "secrets"}: {}},
		grants:   map[string]Grant{"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"}},
		refused:  map[Verb]bool{},
	}
	return serve(t, w, &backend.Memory{})
}

// newRigWith is newRig with further options.
func newRigWith(t *testing.T, o Options) *rig {
	t.Helper()
	w := &world{
		datasets: map[placeName]*ref.Memory{{"team", "digits"}: {}},
		grants:   map[string]Grant{"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"}},
	}
	bytes := &backend.Memory{}
	store, err := data.Open(t.Context(), data.Options{Backend: bytes, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	o.Stores = One{All: store, Uploads: bytes}
	return serveFrom(t, w, o)
}

// loopback is where the gateways of tests are.
var loopback = []net.IP{net.IPv4(127, 0, 0, 1)}

// serve serves a world as another process would.
func serve(t *testing.T, w *world, bytes backend.Streamer) *rig {
	t.Helper()
	store, err := data.Open(t.Context(), data.Options{Backend: bytes, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := serveFrom(t, w, Options{Stores: One{All: store, Uploads: bytes}})
	r.bytes = bytes
	stop := r.stop
	r.stop = sync.OnceFunc(func() {
		stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// serveFrom serves a world as options say.
func serveFrom(t *testing.T, w *world, o Options) *rig {
	t.Helper()
	o.Catalog, o.Keyring, o.Port = w, w, freePort(t)
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- g.Serve(ctx, func(address string) { ready <- address }) }()
	r := &rig{world: w, Gateway: g}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	select {
	case r.address = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	if o.Certificate == nil {
		r.client = r.as(t, "ALICE", "wonderland")
	}
	return r
}

// freePort is a port of the loopback address that is free now.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := free(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// as is a client with a key.
func (r *rig) as(t *testing.T, key, secret string) *minio.Core {
	t.Helper()
	client, err := minio.NewCore(r.address[len("http://"):], &minio.Options{
		Creds: credentials.NewStaticV4(key, secret, ""), Region: Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// put puts an object, which has to work.
func (r *rig) put(t *testing.T, key, content string) string {
	t.Helper()
	info, err := r.client.Client.PutObject(t.Context(), "digits", key, bytes.NewReader([]byte(content)), int64(len(content)), minio.PutObjectOptions{})
	if err != nil {
		t.Fatalf("putting %s: %v", key, err)
	}
	return info.ETag
}

// get is an object's content, or what the answer was.
func (r *rig) get(t *testing.T, key string) string {
	t.Helper()
	o, err := r.client.Client.GetObject(t.Context(), "digits", key, minio.GetObjectOptions{})
	if err != nil {
		return said(err)
	}
	content, err := io.ReadAll(o)
	if err != nil {
		return said(err)
	}
	return string(content)
}

// said is an error as S3 says it.
func said(err error) string {
	if err == nil {
		return ""
	}
	r := minio.ToErrorResponse(err)
	return fmt.Sprintf("%s %d: %s", r.Code, r.StatusCode, r.Message)
}

// dataset is digits as the command line has it, from another process.
func (r *rig) dataset(t *testing.T) *data.Dataset {
	t.Helper()
	store, err := data.Open(t.Context(), data.Options{Backend: r.bytes, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store.Dataset(r.datasets[placeName{"team", "digits"}])
}

// commit puts files into a branch, without the gateway.
func (r *rig) commit(t *testing.T, branch string, files map[string]string) data.PutResult {
	t.Helper()
	var all []data.Content
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, data.Content{Path: name, Bytes: []byte(files[name])})
	}
	done, err := r.dataset(t).Put(t.Context(), branch, data.Contents(all), data.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func openFolder(t *testing.T, dir string) *backend.Folder {
	t.Helper()
	b, err := backend.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
