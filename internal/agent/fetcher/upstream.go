//go:build linux

package fetcher

import (
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// upstream answers the process: it hands out objects of the namespaces for which something is
// fetched, and nothing else.
type upstream struct {
	passes map[string]Pass

	mu sync.Mutex
	// serving counts the requests that are under way, by namespace.
	serving map[string]int
	inUse   func() map[string]bool
}

func newUpstream(o Options) *upstream {
	return &upstream{
		passes: map[string]Pass{strings.TrimPrefix(prefixPods, "/"): o.Pass, strings.TrimPrefix(prefixAhead, "/"): o.PassAhead}, serving: map[string]int{},
		inUse: func() map[string]bool { return nil },
	}
}

// serve lets the process read objects of a namespace until the caller calls done.
func (u *upstream) serve(namespace string) (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.serving[namespace]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.serving[namespace]--; u.serving[namespace] == 0 {
			delete(u.serving, namespace)
		}
	}
}

// served reports whether something of a namespace is being fetched.
func (u *upstream) served(namespace string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.serving[namespace] > 0
}

var (
	snapshots    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	environments = hashes
)

// readable reports whether a path below a namespace is one that the process may read at the
// door: a pack, a commit, a snapshot or an environment.
func readable(at string) bool {
	kind, name, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	switch kind {
	case "data":
		object := data.KindOf(name)
		return object == data.PackObject || object == data.CommitObject
	case "code":
		return snapshots.MatchString(name)
	case "environments":
		return environments.MatchString(name)
	}
	return false
}

// handler answers the process.
func (u *upstream) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathInUse, func(w http.ResponseWriter, _ *http.Request) {
		u.mu.Lock()
		inUse := u.inUse
		u.mu.Unlock()
		_ = json.NewEncoder(w).Encode(inUse()) // the process is gone, or asks again
	})
	mux.HandleFunc("GET /{by}/v1/namespaces/{namespace}/{rest...}", func(w http.ResponseWriter, r *http.Request) { // HEAD, too
		pass, namespace, at := u.passes[r.PathValue("by")], r.PathValue("namespace"), "/"+r.PathValue("rest")
		if pass == nil || path.Clean(at) != at || !readable(at) || !u.served(namespace) {
			http.Error(w, "packs, commits, code and environments of what is fetched now are read here, and nothing else", http.StatusForbidden)
			return
		}
		pass(w, visitor.Bare(r), namespace, at)
	})
	return mux
}
