package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/session"
)

// bodyBytes bounds a request.
const bodyBytes = 16 << 10

// Console makes links to a console.
type Console interface {
	// Link returns a link for a caller: at a local port to which a tunnel leads, or at the console's own
	// address for port 0.
	Link(ctx context.Context, caller session.Caller, port int) (string, error)
	// Table returns the table of sessions and tokens.
	Table() *session.Table
}

// Server answers the requests of commands.
type Server struct {
	// Console returns the console, or why there is none.
	Console func() (Console, error)
	// Port returns the port of the console on this machine.
	Port func() int
	// Caller returns who asks, or why they may not.
	Caller func(*http.Request) (session.Caller, error)
	// Administrator returns nil if the caller may list and end the entries of all users. Required.
	Administrator func(*http.Request) error
}

// UserPrefix begins the name of a user of the machine.
const UserPrefix = "unix:"

// CallerOf returns the name of a user of the machine.
func CallerOf(uid uint32) session.Caller {
	return session.Caller{User: UserPrefix + strconv.FormatUint(uint64(uid), 10)}
}

// UIDOf returns the uid in the name of a user of the machine.
func UIDOf(user string) (uint32, bool) {
	number, ok := strings.CutPrefix(user, UserPrefix)
	uid, err := strconv.ParseUint(number, 10, 32)
	return uint32(uid), ok && err == nil && CallerOf(uint32(uid)).User == user
}

// Peer is a function for Server.Caller that lets all users of the machine in, each as themselves.
func Peer(r *http.Request) (session.Caller, error) {
	who, err := peer.FromContext(r.Context())
	if err != nil {
		return session.Caller{}, err
	}
	if who.Session {
		return session.Caller{}, errors.New("a session gets no links and tokens")
	}
	return CallerOf(who.UID), nil
}

// OnlyUser returns a function for Server.Caller that lets one user in, and root as that user: root can
// read the files of the user anyway.
func OnlyUser(uid uint32) func(*http.Request) (session.Caller, error) {
	return func(r *http.Request) (session.Caller, error) {
		who, err := peer.FromContext(r.Context())
		if err != nil {
			return session.Caller{}, err
		}
		if who.UID != uid && who.UID != 0 {
			return session.Caller{}, fmt.Errorf("this Muster is of uid %d: uid %d may not use its console", uid, who.UID)
		}
		return CallerOf(uid), nil
	}
}

// LinkRequest asks for a link.
type LinkRequest struct {
	// Port is the local port of a tunnel; 0 means no tunnel.
	Port int `json:"port,omitempty"`
}

// Link is a link to the console.
type Link struct {
	URL string `json:"url"`
	// Port is the port of the console on its machine.
	Port    int       `json:"port"`
	User    string    `json:"user"`
	Expires time.Time `json:"expires"`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
	// Lifetime is in seconds.
	Lifetime int64 `json:"lifetime"`
}

// Token is a new token with its secret.
type Token struct {
	session.Entry
	Token string `json:"token"`
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/links", s.with(s.link))
	mux.HandleFunc("GET /v1/entries", s.with(s.list))
	mux.HandleFunc("DELETE /v1/entries/{id}", s.with(s.revoke))
	mux.HandleFunc("POST /v1/tokens", s.with(s.token))
	return mux
}

// with finds the caller and the console first.
func (s *Server) with(answer func(*http.Request, Console, session.Caller) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := s.Caller(r)
		if err != nil {
			refuse(w, http.StatusForbidden, err)
			return
		}
		console, err := s.Console()
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, err)
			return
		}
		value, err := answer(r, console, caller)
		switch {
		case errors.Is(err, session.ErrUnknown):
			refuse(w, http.StatusNotFound, err)
		case errors.As(err, &forbidden{}):
			refuse(w, http.StatusForbidden, err)
		case err != nil:
			refuse(w, http.StatusBadRequest, err)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value) // the client may be gone
		}
	}
}

func refuse(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }

func read(r *http.Request, into any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, bodyBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return nil
}

func (s *Server) link(r *http.Request, console Console, caller session.Caller) (any, error) {
	var asked LinkRequest
	if err := read(r, &asked); err != nil {
		return nil, err
	}
	url, err := console.Link(r.Context(), caller, asked.Port)
	if err != nil {
		return nil, err
	}
	return Link{URL: url, Port: s.Port(), User: caller.User, Expires: time.Now().Add(console.Table().LinkLife())}, nil
}

// forbidden is an error for a caller who is no administrator.
type forbidden struct{ error }

// list lists the caller's own entries, or with ?all those of all users.
func (s *Server) list(r *http.Request, console Console, caller session.Caller) (any, error) {
	user := caller.User
	if r.URL.Query().Has("all") {
		if err := s.Administrator(r); err != nil {
			return nil, forbidden{err}
		}
		user = ""
	}
	return append([]session.Entry{}, console.Table().List(user)...), nil
}

// revoke ends an entry of the caller. Administrators end those of all users.
func (s *Server) revoke(r *http.Request, console Console, caller session.Caller) (any, error) {
	id := r.PathValue("id")
	err := console.Table().Revoke(r.Context(), caller.User, id)
	if errors.Is(err, session.ErrUnknown) && s.Administrator(r) == nil {
		err = console.Table().Revoke(r.Context(), "", id)
	}
	return struct{}{}, err
}

func (s *Server) token(r *http.Request, console Console, caller session.Caller) (any, error) {
	var asked TokenRequest
	if err := read(r, &asked); err != nil {
		return nil, err
	}
	const most = int64(1<<63-1) / int64(time.Second)
	if asked.Lifetime < 0 || asked.Lifetime > most {
		return nil, fmt.Errorf("token lifetime %d s: allowed are 1 to %d", asked.Lifetime, most)
	}
	secret, entry, err := console.Table().CreateToken(r.Context(), caller, session.TokenSpec{Name: asked.Name, Scopes: asked.Scopes,
		Lifetime: time.Duration(asked.Lifetime) * time.Second})
	if err != nil {
		return nil, err
	}
	return Token{Entry: entry, Token: secret.Reveal()}, nil
}
