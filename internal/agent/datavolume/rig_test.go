package datavolume

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/fetcher"
	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/ref"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bucket counts what is read of packs.
type bucket struct {
	backend.Backend
	read atomic.Int64
	// gate, if set, is passed by every read of a pack.
	gate atomic.Pointer[func(context.Context) error]
}

// ReadAt implements [backend.Backend].
func (b *bucket) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if strings.HasPrefix(key, "packs/") {
		if gate := b.gate.Load(); gate != nil {
			if err := (*gate)(ctx); err != nil {
				return err
			}
		}
		b.read.Add(int64(len(into)))
	}
	return b.Backend.ReadAt(ctx, key, offset, into)
}

// stage is a kubelet's folder with the driver in it, stores of two namespaces, and
// what is cried.
type stage struct {
	*testing.T
	dir    string
	stores map[string]*bucket
	server *Server
	limit  int64
	boot   string
	pause  time.Duration
	orders Orders
	now    func() time.Time
	end    func()

	mu   sync.Mutex
	said map[types.UID][]v1alpha1.PodData
	// deaf are pods that nobody knows yet.
	deaf map[types.UID]bool
	news chan struct{}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		T: t, dir: t.TempDir(), limit: 1 << 30, boot: "b001", pause: time.Millisecond, stores: map[string]*bucket{"team": {Backend: &backend.Memory{}}, "other": {Backend: &backend.Memory{}}},
		said: map[types.UID][]v1alpha1.PodData{}, deaf: map[types.UID]bool{}, news: make(chan struct{}, 1),
	}
	must(t, os.Mkdir(filepath.Join(s.dir, "plugins_registry"), 0o755))
	s.start()
	t.Cleanup(func() {
		s.end()
		mounts, _ := filepath.Glob(filepath.Join(s.dir, "pods", "*", "*")) // of a test that failed
		for _, m := range mounts {
			_ = unix.Unmount(m, unix.MNT_DETACH)
		}
	})
	return s
}

// start starts an agent, on what another left behind.
func (s *stage) start() {
	s.Helper()
	var server *Server
	local, err := fetcher.NewLocal(cache.Options{
		Dir: Folder(s.dir), Limit: s.limit, Guarded: true,
		InUse: func(context.Context) (map[string]bool, error) { return server.InUse(), nil },
	}, func(ctx context.Context, p fetcher.Part) (*data.Store, error) {
		return data.Open(ctx, data.Options{Backend: s.stores[p.Namespace], Workers: 2})
	})
	must(s.T, err)
	server, err = New(Options{
		Node: "node-1", KubeletDir: s.dir, Cache: local, Crier: s, Backoff: s.pause, Boot: s.boot, Now: s.now,
		Pass: s.pass,
		Program: func(dir string) (string, error) {
			path := filepath.Join(dir, "program")
			return path, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, nil, 0o755))
		},
		Orders: s.orders, // LeaveFree 0: tests are run on disks that are nearly full, too
	})
	must(s.T, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	s.server = server
	s.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// Arrivals implements [Crier].
func (s *stage) Arrivals(_ context.Context, said map[types.UID]v1alpha1.PodData) ([]types.UID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown []types.UID
	for uid, d := range said {
		if s.deaf[uid] {
			delete(s.deaf, uid)
			unknown = append(unknown, uid)
			continue
		}
		s.said[uid] = append(s.said[uid], d)
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
	return unknown, nil
}

// hears waits until something is cried of a pod.
func (s *stage) hears(pod types.UID, reason v1alpha1.DataReason, words string) v1alpha1.PodData {
	s.Helper()
	limit := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		said := s.said[pod]
		s.mu.Unlock()
		for _, d := range said {
			if d.Reason == reason && strings.Contains(d.Message, words) {
				return d
			}
		}
		select {
		case <-s.news:
		case <-limit:
			s.Fatalf("of %s was said %+v, and nothing of %s with %q", pod, said, reason, words)
		}
	}
}

// put puts files into the store of a namespace, and is the commit and its key.
func (s *stage) put(namespace string, files map[string]string) (commit, key string) {
	s.Helper()
	src := s.TempDir()
	for name, content := range files {
		path := filepath.Join(src, name)
		must(s.T, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
	}
	store, err := data.Open(s.Context(), data.Options{Backend: s.stores[namespace], Workers: 2})
	must(s.T, err)
	defer func() { must(s.T, store.Close()) }()
	r, err := store.Dataset(&ref.Memory{}).Put(s.Context(), "main", data.Folder(src), data.PutOptions{})
	must(s.T, err)
	view, err := store.Dataset(&ref.Memory{}).At(s.Context(), r.Commit.ID.String())
	must(s.T, err)
	return r.Commit.ID.String(), cache.Key(view, "")
}

func (s *stage) target(pod string) string {
	path := filepath.Join(s.dir, "pods", pod, "mount")
	must(s.T, os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

// request is what a kubelet asks for a pod, with further attributes by name and value.
func (s *stage) request(pod, namespace, commit string, more ...string) *csi.NodePublishVolumeRequest {
	r := &csi.NodePublishVolumeRequest{VolumeId: "csi-" + pod, TargetPath: s.target(pod), VolumeContext: map[string]string{
		attributeCommit: commit, attributeWords: "digits@main", inline.AttributeNamespace: namespace, inline.AttributePod: pod, inline.AttributeEphemeral: "true",
	}}
	for i := 0; i < len(more); i += 2 {
		r.VolumeContext[more[i]] = more[i+1]
	}
	return r
}

func (s *stage) publish(r *csi.NodePublishVolumeRequest) {
	s.Helper()
	_, err := s.server.NodePublishVolume(s.Context(), r)
	must(s.T, err)
}

// later asks in the background.
func (s *stage) later(ctx context.Context, r *csi.NodePublishVolumeRequest) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.server.NodePublishVolume(ctx, r)
		done <- err
	}()
	return done
}

func (s *stage) unpublish(pod string) {
	s.Helper()
	_, err := s.server.NodeUnpublishVolume(s.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-" + pod, TargetPath: s.target(pod)})
	must(s.T, err)
}

// reads is what a pod reads; empty: nothing is there.
func (s *stage) reads(pod, name string) string {
	raw, err := os.ReadFile(filepath.Join(s.target(pod), name))
	if err != nil {
		return ""
	}
	return string(raw)
}

// kept are the names in one of the driver's folders.
func (s *stage) kept(folder string) []string {
	found, _ := filepath.Glob(filepath.Join(inline.Folder(s.dir, v1alpha1.DataDriver), folder, "*"))
	return found
}

// noise are bytes that no compression makes fewer.
func noise(seed byte, n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return string(b)
}

// pass answers as the door does, from the stores of the stage.
func (s *stage) pass(w http.ResponseWriter, r *http.Request, namespace, path string) {
	key, store := strings.TrimPrefix(path, "/data/"), s.stores[namespace]
	info, err := store.Stat(r.Context(), key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "there is no such object", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	raw := make([]byte, info.Size)
	if err := store.ReadAt(r.Context(), key, 0, raw); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("X-Muster-Stored", info.Stored.UTC().Format(time.RFC3339Nano))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
}
