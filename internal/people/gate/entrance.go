package gate

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/muster-dev/muster/internal/people/session"
)

// Entrance is the path of the page that exchanges links, below a site's prefix. A link's secret follows
// it as a fragment, which browsers do not send: it reaches no log, no preview and no Referer.
const Entrance = "/.muster/enter"

//go:embed enter.html
var enterPage []byte

//go:embed enter.js
var enterScript []byte

// entrance returns the routes that every site has.
func (g *Gate) entrance(s *site) []Route {
	return []Route{
		{Pattern: Entrance, Methods: []string{http.MethodGet}, Public: true, Handler: fixed("text/html; charset=utf-8", enterPage)},
		{Pattern: Entrance + ".js", Methods: []string{http.MethodGet}, Public: true, Handler: fixed("text/javascript; charset=utf-8", enterScript)},
		{Pattern: Entrance + "/link", Methods: []string{http.MethodPost}, Public: true, Body: 4096, Handler: &exchange{g, s}},
		{Pattern: "/.muster/leave", Methods: []string{http.MethodPost}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.leave(w, r, s) })},
	}
}

func fixed(kind string, text []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	})
}

// exchange turns a link into a session, in two requests. The first names the link's user and uses
// nothing up: the page shows the user and waits for a click, so that nobody is signed in as another
// user by a link that this user sent. The second names that user.
type exchange struct {
	gate *Gate
	site *site
}

type exchangeRequest struct {
	Link string `json:"link"`
	User string `json:"user,omitempty"`
}

type exchangeAnswer struct {
	User string `json:"user"`
	// Name is the user's name for people.
	Name string `json:"name,omitempty"`
	Key  string `json:"key,omitempty"`
}

// ServeHTTP implements [http.Handler].
func (x *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked exchangeRequest
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil || decoder.Decode(&struct{}{}) != io.EOF {
		http.Error(w, "the body is no JSON object with a link", http.StatusBadRequest)
		return
	}
	caller, err := x.gate.table.LinkCaller(asked.Link, x.site.Origin)
	if err != nil {
		http.Error(w, "this link was used, or is older than a minute: "+x.gate.advice, http.StatusUnauthorized)
		return
	}
	if no := x.site.admit(r, caller); no != nil {
		http.Error(w, no.Message, no.Status)
		return
	}
	names := x.site.cookies
	if asked.User == "" {
		http.SetCookie(w, makeCookie(names.prefixed+probe, "1", x.gate.table.LinkLife()))
		write(w, exchangeAnswer{User: caller.User, Name: x.gate.name(r.Context(), caller.User)})
		return
	}
	opened, err := x.gate.table.Exchange(r.Context(), session.Exchange{Link: asked.Link, Origin: x.site.Origin, User: asked.User, Browser: r.UserAgent()})
	switch {
	case errors.Is(err, session.ErrUnknown), errors.Is(err, session.ErrExpired):
		http.Error(w, "this link was used, or is of another user: "+x.gate.advice, http.StatusUnauthorized)
	case err != nil:
		x.gate.log.ErrorContext(r.Context(), "a session was not stored", "error", err)
		http.Error(w, "the session was not stored: see Muster's log, then "+x.gate.advice, http.StatusServiceUnavailable)
	default:
		name := names.prefixed
		if !names.keeps(r) {
			name = names.plain
		}
		http.SetCookie(w, makeCookie(names.prefixed+probe, "", 0))
		http.SetCookie(w, makeCookie(name, opened.Cookie.Reveal(), opened.Expires.Sub(opened.Created)))
		write(w, exchangeAnswer{User: opened.Caller.User, Key: opened.Key.Reveal()})
	}
}

// leave ends the session of the request.
func (g *Gate) leave(w http.ResponseWriter, r *http.Request, s *site) {
	grant, _ := Of(r.Context())
	if err := g.table.Revoke(r.Context(), grant.Caller.User, grant.ID); err != nil && !errors.Is(err, session.ErrUnknown) {
		g.log.ErrorContext(r.Context(), "the end of a session was not stored", "error", err)
		http.Error(w, "the session has ended, but a restart of Muster may bring it back: see its log", http.StatusServiceUnavailable)
		return
	}
	for _, name := range []string{s.cookies.prefixed, s.cookies.plain} {
		if name != "" {
			http.SetCookie(w, makeCookie(name, "", 0))
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
