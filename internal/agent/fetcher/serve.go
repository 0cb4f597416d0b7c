//go:build linux

package fetcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
)

// tellEvery is the shortest time between two reports of progress.
const tellEvery = 200 * time.Millisecond

// work answers the requests of the agent, in the process.
type work struct {
	// local is nil if the agent has no cache of data.
	local *Local
	// trees are the folders of trees.
	trees map[Kind]string
	fetch func(ctx context.Context, r treeRequest, dst string) error
}

// handler answers the agent.
func (w *work) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pathKey, func(out http.ResponseWriter, r *http.Request) {
		var p Part
		if decode(out, r, &p) {
			w.answerKey(r.Context(), out, p)
		}
	})
	mux.HandleFunc(pathEnsure, func(out http.ResponseWriter, r *http.Request) {
		var asked ensureRequest
		if decode(out, r, &asked) {
			w.answerEnsure(r.Context(), out, asked)
		}
	})
	mux.HandleFunc(pathCached, func(out http.ResponseWriter, r *http.Request) {
		var asked cachedRequest
		if decode(out, r, &asked) {
			w.answerCached(r.Context(), out, asked)
		}
	})
	mux.HandleFunc(pathTree, func(out http.ResponseWriter, r *http.Request) {
		var asked treeRequest
		if decode(out, r, &asked) {
			say(out, answer{Done: true}, w.tree(r.Context(), asked))
		}
	})
	return mux
}

// errNoCache is the error of a request for data if the agent has no cache.
var errNoCache = errors.New("this agent fetches no data")

func (w *work) answerKey(ctx context.Context, out http.ResponseWriter, p Part) {
	if w.local == nil {
		say(out, answer{}, errNoCache)
		return
	}
	key, err := w.local.Key(ctx, p)
	say(out, answer{Key: key, Done: true}, err)
}

func (w *work) answerCached(ctx context.Context, out http.ResponseWriter, asked cachedRequest) {
	if w.local == nil {
		say(out, answer{}, errNoCache)
		return
	}
	_, cached := w.local.Path(ctx, asked.Key)
	say(out, answer{Cached: cached, Done: true}, nil)
}

func (w *work) answerEnsure(ctx context.Context, out http.ResponseWriter, asked ensureRequest) {
	if w.local == nil {
		say(out, answer{}, errNoCache)
		return
	}
	var mu sync.Mutex
	var told time.Time
	flush := http.NewResponseController(out)
	err := w.local.Ensure(ctx, asked.Part, asked.Spare, func(p data.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			say(out, answer{Progress: &p}, nil)
			_ = flush.Flush() // the agent hears of the end in any case
		}
	})
	mu.Lock()
	defer mu.Unlock()
	say(out, answer{Done: true}, err)
}

// tree fetches a tree.
func (w *work) tree(ctx context.Context, r treeRequest) error {
	top, known := w.trees[r.Kind]
	if !known {
		return fmt.Errorf("this agent fetches nothing of the kind %q", r.Kind)
	}
	if !filepath.IsLocal(r.Namespace) || filepath.Base(r.Namespace) != r.Namespace || filepath.Base(r.Name) != r.Name || !filepath.IsLocal(r.Name) {
		return fmt.Errorf("the folder %q of namespace %q is not a name", r.Name, r.Namespace)
	}
	folder := filepath.Join(top, r.Namespace)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder of a namespace: %w", err)
	}
	return w.fetch(ctx, r, filepath.Join(folder, r.Name))
}

// say writes one line: the answer, or the error.
func say(out http.ResponseWriter, a answer, err error) {
	if err != nil {
		a = answer{Error: failureOf(err)}
	}
	_ = json.NewEncoder(out).Encode(a) // the agent is gone, or asks again
}
