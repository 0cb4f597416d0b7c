package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
)

// The paths at which people sign in, below a site's prefix.
const (
	SignInPath   = "/.muster/signin"
	CallbackPath = SignInPath + "/callback"
)

const (
	signInPurpose = "signin"
	// signInLife is the time that a user has at the provider.
	signInLife = 10 * time.Minute
)

// SignIn signs people in at a provider. An error of the type [*Problem] says which status the page gets.
type SignIn interface {
	// Begin returns the address at the provider to which a browser goes, and a cookie that it brings back.
	Begin(ctx context.Context) (address, cookie string, err error)
	// Finish returns who has signed in, by the cookie and the parameters of the callback.
	Finish(ctx context.Context, cookie string, query url.Values) (session.Caller, session.Credential, error)
}

// advice says how one signs in; empty means by the command.
func (o *Options) advice() string {
	if o.SignIn == nil {
		return ""
	}
	origin, prefix := o.home()
	return "sign in at " + origin + prefix + "/"
}

// page tells the page how one signs in.
func (s *Server) page(text []byte) []byte {
	if s.o.SignIn == nil {
		return text
	}
	return bytes.Replace(text, []byte(`data-signin="command"`), []byte(`data-signin="provider"`), 1)
}

// signInRoutes are those of a sign-in. They are public: the provider sends the browser to them, and the
// cookie proves that this browser began.
func (s *Server) signInRoutes(origin, prefix string) ([]gate.Route, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	e := &enterer{server: s, origin: u, prefix: prefix}
	get := []string{http.MethodGet}
	return []gate.Route{
		{Pattern: SignInPath, Methods: get, Public: true, OwnCookies: true, Handler: http.HandlerFunc(e.begin)},
		{Pattern: CallbackPath, Methods: get, Public: true, OwnCookies: true, Handler: http.HandlerFunc(e.finish)},
	}, nil
}

// enterer signs people in at one origin.
type enterer struct {
	server *Server
	origin *url.URL
	prefix string
}

func (e *enterer) begin(w http.ResponseWriter, r *http.Request) {
	address, cookie, err := e.server.o.SignIn.Begin(r.Context())
	if err != nil {
		e.server.refuse(w, r, err)
		return
	}
	http.SetCookie(w, gate.Cookie(e.origin, signInPurpose, cookie, signInLife))
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// finish makes a link and leads to the page that exchanges it: the page names the user and waits for a
// click. No parameter of the request decides where the browser goes.
func (e *enterer) finish(w http.ResponseWriter, r *http.Request) {
	removed := gate.Cookie(e.origin, signInPurpose, "", 0)
	cookies := r.CookiesNamed(removed.Name)
	http.SetCookie(w, removed)
	if len(cookies) != 1 {
		e.server.refuse(w, r, &Problem{Status: http.StatusForbidden, Err: errors.New("this browser did not begin a sign-in here, or began it more than 10 minutes ago: " + e.server.o.advice())})
		return
	}
	caller, credential, err := e.server.o.SignIn.Finish(r.Context(), cookies[0].Value, r.URL.Query())
	if err != nil {
		e.server.refuse(w, r, err)
		return
	}
	link, err := e.server.o.Table.LinkWith(caller, e.origin.String(), credential)
	if err != nil {
		e.server.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", e.origin.String()+e.prefix+gate.Entrance+"#"+link.Reveal())
	w.WriteHeader(http.StatusSeeOther)
}

// refuse answers a sign-in that failed, and logs it: an administrator has to find the reason.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.o.Log.WarnContext(r.Context(), "a sign-in failed", "error", err, "remote", r.RemoteAddr)
	s.fail(w, r, err)
}
