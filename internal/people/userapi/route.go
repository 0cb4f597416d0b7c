package userapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
)

const (
	// bodyBytes bounds the body of a request to the API server, which takes objects of at
	// most 3 MiB.
	bodyBytes = 16 << 20
	// silence is how long a body may bring nothing.
	silence = 30 * time.Second
)

// kubernetes are the first segments of paths of the API server. The empty one is its list
// of paths.
var kubernetes = map[string]bool{
	"": true, "api": true, "apis": true, "openapi": true, "version": true, "healthz": true, "livez": true, "readyz": true, "metrics": true,
}

// routes leads requests to their part of Muster.
func (s *Server) routes() http.Handler {
	var door, console http.Handler
	if s.o.Door != nil {
		door = http.StripPrefix(DoorPath, s.o.Door)
	}
	if s.o.Console != nil {
		console = ofProcess(http.StripPrefix(ConsolePath, s.o.Console))
	}
	credential := ofProcess(http.HandlerFunc(s.credential))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case kubernetes[first]:
			s.api(w, r)
		case door != nil && strings.HasPrefix(r.URL.Path, DoorPath+"/"):
			door.ServeHTTP(w, r)
		case s.o.Sign != nil && r.URL.Path == CredentialPath:
			credential.ServeHTTP(w, r)
		case console != nil && strings.HasPrefix(r.URL.Path, ConsolePath+"/"):
			console.ServeHTTP(w, r)
		default:
			peer.Refuse(w, http.StatusNotFound, fmt.Sprintf("the socket of Muster has no path %.256q: is this program of another version than the Muster of the machine? `muster version` says", r.URL.Path))
		}
	})
}

// ofProcess serves requests of processes only. A session of the console that makes a certificate, a link
// or a token would outlive its own end.
func ofProcess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := peer.FromContext(r.Context()); err != nil || from.Session {
			peer.Refuse(w, http.StatusForbidden, "a session of the console gets no certificates, links or tokens here: use the commands `muster credential`, `muster console` and `muster token`")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// api passes a request to the API server. A stream ends when the server stops.
func (s *Server) api(w http.ResponseWriter, r *http.Request) {
	if stream(r) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		ended := make(chan struct{})
		defer func() { cancel(); <-ended }()
		go func() {
			defer close(ended)
			select {
			case <-s.stopping:
				cancel()
			case <-ctx.Done():
			}
		}()
		r = r.WithContext(ctx)
	}
	if r.Body != nil && r.Body != http.NoBody {
		body := &bounded{ReadCloser: http.MaxBytesReader(w, r.Body, bodyBytes), control: http.NewResponseController(w)}
		r = r.WithContext(r.Context())
		r.Body = body
		defer body.end()
	}
	s.o.API.ServeHTTP(w, r)
}

// stream reports whether a request may go on for as long as the caller likes.
func stream(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return true
	}
	query := r.URL.Query()
	for _, name := range []string{"watch", "follow"} {
		if on := query.Get(name); on != "" && on != "0" && on != "false" {
			return true
		}
	}
	return false
}

// bounded is a body that ends with an error if nothing comes for a while.
type bounded struct {
	io.ReadCloser
	control *http.ResponseController

	mu   sync.Mutex
	over bool
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	b.deadline(time.Now().Add(silence))
	n, err := b.ReadCloser.Read(p)
	b.deadline(time.Time{})
	return n, err
}

// deadline sets that of the connection, until the request has ended: a proxy may read on.
func (b *bounded) deadline(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.control.SetReadDeadline(at) // without one, the read takes its time
	}
}

func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}
