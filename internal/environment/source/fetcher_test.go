package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// newFetcher runs a fetcher until the test ends.
func newFetcher(t *testing.T, opts FetcherOptions) *Fetcher {
	t.Helper()
	opts.Store, opts.Inner = newStore(t), true
	if opts.Backoff == 0 {
		opts.Backoff = time.Millisecond
	}
	f, err := NewFetcher(opts)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return f
}

// settled asks until the fetch has ended, whenever something changed.
func settled(t *testing.T, f *Fetcher, owner, url string) State {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s := f.Ensure(owner, url)
		if s.Phase != Fetching {
			return s
		}
		select {
		case <-f.Changes():
		case <-deadline:
			t.Fatalf("still %+v", s)
		}
	}
}

func TestFetchMakesASnapshot(t *testing.T) {
	var hits atomic.Int32
	content := atomic.Pointer[string]{}
	first := "print(1)"
	content.Store(&first)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved/train.py" {
			http.Redirect(w, r, "/real/other.py", http.StatusFound)
			return
		}
		hits.Add(1)
		_, _ = fmt.Fprint(w, *content.Load())
	}))
	defer server.Close()
	f := newFetcher(t, FetcherOptions{})
	url := server.URL + "/moved/train.py?token=secret"
	got := settled(t, f, "a", url)
	if got.Phase != Ready || got.File != "train.py" || strings.Contains(got.Message, "secret") {
		t.Fatalf("%+v", got)
	}
	dst := filepath.Join(t.TempDir(), "out")
	must(t, f.opts.Store.Checkout(t.Context(), got.Digest, dst))
	if data, _ := os.ReadFile(filepath.Join(dst, "train.py")); string(data) != "print(1)" {
		t.Errorf("%q", data)
	}
	// The same owner is not fetched for again; a new one sees the new script.
	second := "print(2)"
	content.Store(&second)
	if again := f.Ensure("a", url); again != got || hits.Load() != 1 {
		t.Errorf("%+v after %d fetches", again, hits.Load())
	}
	if other := settled(t, f, "b", url); other.Digest == got.Digest || hits.Load() != 2 {
		t.Errorf("%+v after %d fetches", other, hits.Load())
	}
}

func TestFetchIsSharedWhileUnderWay(t *testing.T) {
	var hits atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		<-release
		_, _ = fmt.Fprint(w, "x")
	}))
	defer server.Close()
	f := newFetcher(t, FetcherOptions{})
	for i := range 20 {
		if s := f.Ensure(fmt.Sprint(i), server.URL+"/a.py"); s.Phase != Fetching {
			t.Fatalf("%+v", s)
		}
	}
	close(release)
	for i := range 20 {
		if s := settled(t, f, fmt.Sprint(i), server.URL+"/a.py"); s.Phase != Ready {
			t.Fatalf("%+v", s)
		}
	}
	if hits.Load() != 1 {
		t.Errorf("%d fetches", hits.Load())
	}
}

func TestFetchFailuresInWords(t *testing.T) {
	var flaky atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/flaky.py", func(w http.ResponseWriter, _ *http.Request) {
		if flaky.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprint(w, "x")
	})
	mux.HandleFunc("/500.py", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/403.py", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/huge.py", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(int64(10)<<30))
		_, _ = w.Write(make([]byte, 1000))
	})
	mux.HandleFunc("/endless.py", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/empty.py", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/loop.py", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop.py", http.StatusFound) })
	mux.HandleFunc("/file.py", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/slow.py", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/broken.py", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("half"))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	closed := httptest.NewServer(mux)
	closed.Close()

	f := newFetcher(t, FetcherOptions{MaxBytes: 1 << 20, Timeout: 300 * time.Millisecond, Tries: 3})
	for url, want := range map[string][]string{
		server.URL + "/flaky.py":   nil,
		server.URL + "/missing.py": {"fetching http://", "404 Not Found", "check the address in a browser"},
		server.URL + "/500.py":     {"500 Internal Server Error"},
		server.URL + "/403.py":     {"403 Forbidden", "login"},
		server.URL + "/huge.py":    {"10 GiB", "1 MiB"},
		server.URL + "/endless.py": {"larger than 1 MiB"},
		server.URL + "/empty.py":   {"empty"},
		server.URL + "/loop.py":    {"redirected more than 10 times"},
		server.URL + "/file.py":    {"only http and https"},
		server.URL + "/slow.py":    {"did not answer in time"},
		server.URL + "/broken.py":  {"broke off"},
		secure.URL + "/x.py":       {"certificate is not trusted"},
		closed.URL + "/x.py":       {"refused the connection"},
		"http://no.invalid/x.py":   {"no.invalid"},
		"ftp://host/x.py":          {"http:// or https://"},
		"http://host.test/":        {"names no file"},
		"http://":                  {"names no server"},
		"http://user:pw@[bad/x.py": {"reading the script's address"},
	} {
		t.Run(url, func(t *testing.T) {
			got := settled(t, f, url, url)
			if want == nil {
				if got.Phase != Ready {
					t.Fatalf("%+v", got)
				}
				return
			}
			if got.Phase != Failed || strings.Contains(got.Message, "pw") {
				t.Fatalf("%+v", got)
			}
			for _, w := range want {
				if !strings.Contains(got.Message, w) {
					t.Errorf("%q lacks %q", got.Message, w)
				}
			}
		})
	}
	if left, _ := os.ReadDir(filepath.Join(f.opts.Store.dir, tempDir)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestSharedFetches: owners of one scope share a fetch, and each scope gets its own copy.
func TestSharedFetches(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "print(%d)", asked.Add(1))
	}))
	t.Cleanup(server.Close)
	var mu sync.Mutex
	kept := map[string]string{}
	f, err := NewFetcher(FetcherOptions{Inner: true, Shared: &Shared{
		Dir:   t.TempDir(),
		Scope: func(owner string) string { scope, _, _ := strings.Cut(owner, "/"); return scope },
		Keep: func(_ context.Context, scope, file string) (string, error) {
			text, err := os.ReadFile(file)
			mu.Lock()
			defer mu.Unlock()
			kept[scope] += string(text)
			return "digest of " + string(text), err
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	owners := []string{"a/one", "a/two", "b/one"}
	for _, owner := range owners { // before Run: the flights of a scope are one
		f.Ensure(owner, server.URL+"/train.py")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ready := map[string]string{}
	for len(ready) < len(owners) {
		owner := <-f.Changes()
		if s := f.Ensure(owner, server.URL+"/train.py"); s.Phase == Ready {
			ready[owner] = s.Digest
		} else if s.Phase == Failed {
			t.Fatal(s.Message)
		}
	}
	if asked.Load() != 2 || len(kept["a"]) != len("print(1)") || len(kept["b"]) != len("print(1)") || kept["a"] == kept["b"] {
		t.Errorf("%d fetches, kept %v", asked.Load(), kept)
	}
	if ready["a/one"] != ready["a/two"] || ready["a/one"] == ready["b/one"] {
		t.Errorf("%v", ready)
	}
}
