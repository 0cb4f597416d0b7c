//go:build linux

package fetcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// atTheDoor serves the door of a stage on the loopback, and returns a client of it.
func atTheDoor(b *testing.B, s *stage) *visitor.Visitor {
	b.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/namespaces/{namespace}/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		s.pass(w, r, r.PathValue("namespace"), "/"+r.PathValue("rest"))
	})
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)
	return visitor.Behind(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
		MaxIdleConnsPerHost: 12,
	}, "")
}

// BenchmarkFetch fetches 64 MiB in 64 files, and 2,000 files of 1 KiB, from a door on the
// loopback: in this process, and in a process of its own, whose requests this one passes on.
func BenchmarkFetch(b *testing.B) {
	for name, c := range map[string]struct{ files, size int }{"64 files of 1 MiB": {64, 1 << 20}, "2000 files of 1 KiB": {2000, 1 << 10}} {
		s := newStage(b)
		door := atTheDoor(b, s)
		s.passes = func(w http.ResponseWriter, r *http.Request, namespace, path string) {
			door.Pass(w, r, namespace, path, v1alpha1.DoorMark)
		}
		random := rand.NewChaCha8([32]byte{1})
		files := map[string]string{}
		for i := range c.files {
			raw := make([]byte, c.size)
			_, _ = random.Read(raw)
			files[fmt.Sprintf("d%d/f%d", i%10, i)] = string(raw)
		}
		part := s.put("team", files)
		s.start()
		for where, fetch := range map[string]func(dir string) error{
			"this process": func(dir string) error {
				local, err := NewLocal(cache.Options{Dir: dir, Limit: 1 << 40, Guarded: true}, func(ctx context.Context, p Part) (*data.Store, error) {
					return data.Open(ctx, data.Options{Backend: door.Data(p.Namespace), Workers: workers})
				})
				must(b, err)
				return local.Ensure(b.Context(), part, nil, nil)
			},
			"its own": func(string) error { return s.fetcher.Ensure(b.Context(), part, nil, nil) },
		} {
			b.Run(name+"/"+where, func(b *testing.B) {
				b.SetBytes(int64(c.files * c.size))
				for i := range b.N {
					b.StopTimer()
					dir := filepath.Join(b.TempDir(), fmt.Sprint(i))
					s.end()
					must(b, os.RemoveAll(s.folder(parts)))
					s.start()
					_, err := s.fetcher.Key(b.Context(), part) // it is started
					must(b, err)
					b.StartTimer()
					must(b, fetch(dir))
				}
			})
		}
	}
}
