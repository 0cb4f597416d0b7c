package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
)

// Scopes of tokens.
const (
	// ScopeRead reads what pages show.
	ScopeRead = "read"
	// ScopePrograms uses the caller's programs.
	ScopePrograms = "programs"
)

// Scopes are all scopes that a token may have.
func Scopes() []string { return []string{ScopeRead, ScopePrograms} }

//go:embed assets
var assets embed.FS

var kinds = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// routes are those of the console. Its page and the files of it are public: they hold no data.
func (s *Server) routes() []gate.Route {
	get := []string{http.MethodGet}
	routes := []gate.Route{
		{Pattern: "/api/me", Methods: get, Scope: ScopeRead, Handler: http.HandlerFunc(s.me)},
		{Pattern: "/api/gpus", Methods: get, Scope: ScopeRead, Handler: http.HandlerFunc(s.gpus)},
		{Pattern: "/api/watch", Methods: get, Scope: ScopeRead, Handler: http.HandlerFunc(s.watch)},
		{Pattern: "/api/sessions", Methods: get, Handler: http.HandlerFunc(s.sessions)},
		{Pattern: "/api/sessions/{id}", Methods: []string{http.MethodDelete}, Handler: http.HandlerFunc(s.revoke)},
	}
	files, _ := fs.ReadDir(assets, "assets") // embedded: it is there
	for _, file := range files {
		text, _ := assets.ReadFile("assets/" + file.Name())
		pattern := "/assets/" + file.Name()
		if file.Name() == "index.html" {
			pattern, text = "/{$}", s.page(text)
		}
		routes = append(routes, gate.Route{Pattern: pattern, Methods: []string{http.MethodGet, http.MethodHead}, Public: true,
			Handler: static(kinds[path.Ext(file.Name())], text)})
	}
	return routes
}

func static(kind string, text []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // the client may be gone
	})
}

// me is the answer about the caller.
type me struct {
	User string `json:"user"`
	Name string `json:"name"`
	// Session is the ID of the session or token of the request.
	Session string    `json:"session"`
	Expires time.Time `json:"expires"`
	// API is the caller as the API server knows them; absent if it does not say.
	API *Identity `json:"api,omitempty"`
	// Trouble says why the API server does not say it.
	Trouble string `json:"trouble,omitempty"`
	// ReadOnly says why pages cannot change objects for this caller.
	ReadOnly string `json:"readOnly,omitempty"`
	Version  string `json:"version"`
}

func (s *Server) me(w http.ResponseWriter, r *http.Request) {
	grant, _ := gate.Of(r.Context())
	answer := me{User: grant.Caller.User, Name: s.o.Name(r.Context(), grant.Caller.User), Session: grant.ID, Expires: grant.Expires, Version: s.o.Version}
	way, err := s.o.Passage.Of(r.Context(), grant.Caller)
	if err == nil {
		answer.ReadOnly = way.ReadOnly
	}
	if err == nil && way.ReadOnly == "" { // else it is the server that asks, so the API does not know the caller
		var identity Identity
		if identity, err = s.o.Answers.Review(r.Context(), way); err == nil {
			answer.API = &identity
		}
	}
	if err != nil {
		answer.Trouble = err.Error()
	}
	write(w, answer)
}

// ask reads an answer by the way of the caller.
func (s *Server) ask(r *http.Request) (any, error) {
	grant, _ := gate.Of(r.Context())
	way, err := s.o.Passage.Of(r.Context(), grant.Caller)
	if _, known := errors.AsType[*Problem](err); err != nil && !known {
		err = &Problem{Status: http.StatusForbidden, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return s.o.Answers.GPUs(r.Context(), way)
}

func (s *Server) gpus(w http.ResponseWriter, r *http.Request) {
	answer, err := s.ask(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	write(w, answer)
}

// news is one line of the watch.
type news struct {
	GPUs    any    `json:"gpus,omitempty"`
	Trouble string `json:"trouble,omitempty"`
}

// watch sends a line of JSON with the state of the GPUs, again and again. It ends with the session.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, lines := http.NewResponseController(w), json.NewEncoder(w)
	tick := time.NewTicker(s.o.Refresh)
	defer tick.Stop()
	for {
		var line news
		var err error
		if line.GPUs, err = s.ask(r); err != nil {
			line = news{Trouble: err.Error()}
		}
		if r.Context().Err() != nil || lines.Encode(line) != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// entry is a session or token with the name of its origin for people.
type entry struct {
	session.Entry
	Current bool `json:"current"`
}

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) {
	grant, _ := gate.Of(r.Context())
	list := []entry{}
	for _, e := range s.o.Table.List(grant.Caller.User) {
		list = append(list, entry{Entry: e, Current: e.ID == grant.ID})
	}
	slices.Reverse(list) // the newest first
	write(w, list)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	grant, _ := gate.Of(r.Context())
	// The request itself may use the session, so its context ends with it.
	err := s.o.Table.Revoke(context.WithoutCancel(r.Context()), grant.Caller.User, r.PathValue("id"))
	switch {
	case errors.Is(err, session.ErrUnknown):
		http.Error(w, "you have no such session or token", http.StatusNotFound)
	case err != nil:
		s.fail(w, r, &Problem{Status: http.StatusServiceUnavailable, Err: err})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// fail answers with an error of an answer.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	if p, ok := errors.AsType[*Problem](err); ok {
		status = p.Status
	}
	s.o.Log.DebugContext(r.Context(), "an answer failed", "path", r.URL.Path, "error", err)
	http.Error(w, strings.TrimSpace(err.Error()), status)
}

func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
