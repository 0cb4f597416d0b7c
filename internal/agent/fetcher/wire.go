package fetcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
)

// The paths at which the fetcher is asked. Each takes a JSON body by POST.
const (
	pathKey    = "/key"    // a Part; the answer is an answer
	pathEnsure = "/ensure" // an ensureRequest; the answer is a stream of answers
	pathCached = "/cached" // a cachedRequest; the answer is an answer
	pathTree   = "/tree"   // a treeRequest; the answer is an answer
)

// The paths at which the fetcher asks the agent, by GET or HEAD.
const (
	// pathInUse is the list of the scoped keys of entries that volumes name, as JSON.
	pathInUse = "/in-use"
	// prefixPods and prefixAhead come before a path of the manager's door: for volumes of
	// pods, and for parts that no pod names yet.
	prefixPods  = "/pods"
	prefixAhead = "/ahead"
)

// The sockets, in the folder of sockets.
const (
	fetcherSocket = "fetcher.sock"
	agentSocket   = "agent.sock"
)

// mostAnswer bounds a line of an answer of the process, in bytes.
const mostAnswer = 1 << 20

type ensureRequest struct {
	Part  Part         `json:"part"`
	Spare *cache.Spare `json:"spare,omitempty"`
}

type cachedRequest struct {
	Key string `json:"key"`
}

// treeRequest asks for a tree of a kind, which becomes the folder Namespace/Name.
type treeRequest struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Digest    string `json:"digest"`
	Name      string `json:"name"`
}

// answer is one line of an answer. A stream ends with Done or Error.
type answer struct {
	Key      string         `json:"key,omitempty"`
	Cached   bool           `json:"cached,omitempty"`
	Progress *data.Progress `json:"progress,omitempty"`
	Done     bool           `json:"done,omitempty"`
	Error    *failure       `json:"error,omitempty"`
}

// failure is an error on its way to the agent.
type failure struct {
	Text string `json:"text"`
	// Unfit and Missing say that it is [data.Unfit], and wraps [fs.ErrNotExist]; Room is
	// its [cache.RoomError].
	Unfit   bool             `json:"unfit,omitempty"`
	Missing bool             `json:"missing,omitempty"`
	Room    *cache.RoomError `json:"room,omitempty"`
}

// failureOf encodes an error.
func failureOf(err error) *failure {
	f := &failure{Text: err.Error(), Unfit: data.Unfit(err), Missing: errors.Is(err, fs.ErrNotExist)}
	f.Room, _ = errors.AsType[*cache.RoomError](err)
	return f
}

// err decodes the error.
func (f *failure) err() error {
	switch text := errors.New(printable(f.Text)); {
	case f.Room != nil:
		return f.Room
	case f.Unfit:
		return data.MarkUnfit(text)
	case f.Missing:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, text)
	default:
		return text
	}
}

// printable returns a text of the process as one line of at most 4 KiB, without control
// characters.
func printable(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 4096)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// decode reads the body of a request.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if r.Method != http.MethodPost {
		http.Error(w, "ask by POST", http.StatusMethodNotAllowed)
		return false
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, mostAnswer)).Decode(into); err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}
