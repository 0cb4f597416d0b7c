//go:build linux

package fetcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/environment/source"
)

// processArgument makes the program of these tests the process that fetches.
const processArgument = "fetch"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != processArgument {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := Main(ctx, os.Args[2:], os.Stderr)
	stop()
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a node's folder with a running process, and a door with the stores of two
// namespaces and code.
type stage struct {
	testing.TB
	dir     string
	limit   int64
	fetcher *Fetcher
	end     func()
	stores  map[string]backend.Backend
	code    *source.Store
	log     *lines
	// passes is the way to the door. Default: pass.
	passes Pass

	mu sync.Mutex
	// gate, if set, is passed by each request for a pack.
	gate  func(context.Context)
	asked []string
	inUse map[string]bool
}

// lines keeps the log of the agent.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{TB: t, dir: t.TempDir(), limit: 1 << 30, stores: map[string]backend.Backend{"team": &backend.Memory{}, "other": &backend.Memory{}}, log: &lines{}}
	s.passes = s.pass
	var err error
	s.code, err = source.Open(filepath.Join(t.TempDir(), "code"))
	must(t, err)
	t.Cleanup(func() {
		if s.end != nil {
			s.end()
		}
	})
	return s
}

func (s *stage) folder(kind Kind) string { return filepath.Join(s.dir, string(kind)) }

// start starts an agent, on the folders of an earlier one.
func (s *stage) start() {
	s.Helper()
	f, err := New(s.Context(), Options{
		Sockets: filepath.Join(s.dir, "sockets"), Program: []string{processArgument}, Limit: s.limit,
		Data: s.folder(parts), Trees: map[Kind]string{Code: s.folder(Code), Environments: s.folder(Environments)},
		Pass: s.passes, Log: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	must(s.TB, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- f.Run(ctx, func() map[string]bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.inUse
		})
	}()
	s.fetcher = f
	s.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// put stores files in a namespace, and returns them as a part.
func (s *stage) put(namespace string, files map[string]string) Part {
	s.Helper()
	src := s.plant(files)
	store, err := data.Open(s.Context(), data.Options{Backend: s.stores[namespace], Workers: 2})
	must(s.TB, err)
	defer func() { must(s.TB, store.Close()) }()
	r, err := store.Dataset(&ref.Memory{}).Put(s.Context(), "main", data.Folder(src), data.PutOptions{})
	must(s.TB, err)
	return Part{Namespace: namespace, Commit: r.Commit.ID.String()}
}

// plant writes files into a new folder.
func (s *stage) plant(files map[string]string) string {
	s.Helper()
	dir := s.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must(s.TB, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
	}
	return dir
}

// ensure fetches a part, and returns the folder of its files.
func (s *stage) ensure(p Part) string {
	s.Helper()
	key, err := s.fetcher.Key(s.Context(), p)
	must(s.TB, err)
	must(s.TB, s.fetcher.Ensure(s.Context(), p, nil, nil))
	path, here := s.fetcher.Path(s.Context(), cache.Scoped(p.Namespace, key))
	if !here {
		s.Fatalf("%v is not in the cache", p)
	}
	return path
}

// again repeats something that fails while the process is started again.
func (s *stage) again(do func() error) {
	s.Helper()
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			s.Fatal(err)
		}
	}
}

// process is the number of the process that fetches: the child of this one.
func (s *stage) process() int {
	s.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	must(s.TB, err)
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // the thread may be gone
		for child := range strings.FieldsSeq(string(text)) {
			if args, _ := os.ReadFile("/proc/" + child + "/cmdline"); strings.Contains(string(args), "--folders") {
				pid, err := strconv.Atoi(child)
				must(s.TB, err)
				return pid
			}
		}
	}
	s.Fatal("there is no process that fetches")
	return 0
}

// pass is the door.
func (s *stage) pass(w http.ResponseWriter, r *http.Request, namespace, path string) {
	s.mu.Lock()
	s.asked = append(s.asked, namespace+path)
	gate := s.gate
	s.mu.Unlock()
	w.Header().Set(v1alpha1.DoorMark, "v1")
	key, is := strings.CutPrefix(path, "/data/")
	if !is {
		s.sendCode(w, r, strings.TrimPrefix(path, "/code/"))
		return
	}
	w.Header().Set(v1alpha1.DoorData, "v1")
	if gate != nil && data.KindOf(key) == data.PackObject {
		gate(r.Context())
	}
	info, err := s.stores[namespace].Stat(r.Context(), key)
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, `{"error": "there is no such object"}`, http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, `{"error": "the store is away"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("X-Muster-Stored", info.Stored.UTC().Format(time.RFC3339Nano))
	content := object{s.stores[namespace], key, r.Context()}
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(content, 0, info.Size))
}

// object is the content of an object of a store.
type object struct {
	in  backend.Backend
	key string
	ctx context.Context
}

// ReadAt implements [io.ReaderAt].
func (o object) ReadAt(into []byte, at int64) (int, error) {
	return len(into), o.in.ReadAt(o.ctx, o.key, at, into)
}

func (s *stage) sendCode(w http.ResponseWriter, r *http.Request, digest string) {
	parcel, err := s.code.Parcel(digest)
	if err != nil {
		http.Error(w, `{"error": "there is no such code"}`, http.StatusNotFound)
		return
	}
	_ = parcel.WriteTar(r.Context(), w, func(_ context.Context, c source.Content) (io.ReadCloser, error) { return s.code.Open(c.Hash) })
}
