package gate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/session"
)

const (
	console = "http://localhost:8080"
	program = "http://board-1000.localhost:8080"
	cluster = "https://muster.example.org"
)

var ada = session.Caller{User: "unix:1000"}

// bench is a gate with three sites: a console, a program, and a console behind a reverse proxy and
// below a path prefix.
type bench struct {
	*Gate
	t       testing.TB
	path    string
	shift   atomic.Int64 // of the clock
	reached atomic.Int64 // requests that a handler or a program got
	last    atomic.Pointer[http.Request]
	board   http.RoundTripper // the program
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{t: t, path: filepath.Join(t.TempDir(), "sessions.json")}
	b.board = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody}, nil
	})
	b.start()
	return b
}

// start makes the gate, as after a restart of Muster.
func (b *bench) start() {
	b.t.Helper()
	table, err := session.Open(b.t.Context(), session.Options{Store: session.File{Path: b.path}, Scopes: []string{"jobs", "programs"},
		Now: func() time.Time { return time.Now().Add(time.Duration(b.shift.Load())) }})
	must(b.t, err)
	b.Gate = New(Options{Table: table, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	must(b.t, b.Add(b.t.Context(), Site{Origin: console, Routes: b.console()}))
	must(b.t, b.Add(b.t.Context(), Site{Origin: cluster, Prefix: "/muster", Routes: b.console()}))
	must(b.t, b.Add(b.t.Context(), Site{Origin: program, Admit: owner, Routes: []Route{{Pattern: "/", Upgrade: "websocket", Scope: "programs",
		Methods: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, Program: &Program{Scheme: "http", Host: "board", Transport: b.count()}}}}))
}

type stranger struct{}

func (stranger) Error() string { return "it belongs to another user" }

func owner(_ *http.Request, c session.Caller) error {
	if c.User != ada.User {
		return stranger{}
	}
	return nil
}

// count returns the transport to the program.
func (b *bench) count() http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		b.saw(r)
		return b.board.RoundTrip(r)
	})
}

func (b *bench) saw(r *http.Request) {
	b.reached.Add(1)
	b.last.Store(r)
}

func (b *bench) handle(w http.ResponseWriter, r *http.Request) {
	b.saw(r)
	_, _ = io.Copy(w, r.Body)
}

func (b *bench) console() []Route {
	h := http.HandlerFunc(b.handle)
	return []Route{
		{Pattern: "/{$}", Methods: []string{"GET", "HEAD"}, Public: true, Handler: h},
		{Pattern: "/assets/", Methods: []string{"GET"}, Public: true, Asset: true, Handler: h},
		{Pattern: "/api/jobs", Methods: []string{"GET", "POST"}, Scope: "jobs", Body: 100, Handler: h},
		{Pattern: "/api/jobs/{name}", Methods: []string{"GET", "PUT", "DELETE"}, Scope: "jobs", Handler: h},
		{Pattern: "/api/tokens", Methods: []string{"GET", "POST", "PATCH"}, Handler: h},
		{Pattern: "/api/watch", Methods: []string{"GET"}, Upgrade: "websocket", Handler: h},
		{Pattern: "/download/", Methods: []string{"GET", "POST"}, CookieOnly: true, Handler: h},
	}
}

// signIn returns a session of a caller at an origin.
func (b *bench) signIn(caller session.Caller, origin string) session.Opened {
	b.t.Helper()
	link, err := b.table.Link(caller, origin)
	must(b.t, err)
	opened, err := b.table.Exchange(b.t.Context(), session.Exchange{Link: link.Reveal(), Origin: origin, User: caller.User})
	must(b.t, err)
	return opened
}

func (b *bench) token(scopes ...string) string {
	b.t.Helper()
	secret, _, err := b.table.CreateToken(b.t.Context(), ada, session.TokenSpec{Name: "nightly-" + strings.Join(scopes, "."), Scopes: scopes, Lifetime: time.Hour})
	must(b.t, err)
	return secret.Reveal()
}

// cookieOf names the cookie of an origin as a browser sends it.
var cookieOf = map[string]string{console: "__Host-muster-8080", program: "__Host-muster-8080", cluster: "__Host-muster-https"}

// request returns a request as a page of the origin sends it, with a session.
func request(method, origin, path, body string, as session.Opened) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	_, r.Host, _ = strings.Cut(origin, "://")
	r.RemoteAddr = "127.0.0.1:40000"
	if origin == cluster {
		r.RemoteAddr = "10.1.2.3:40000"
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-Host", r.Host)
		r.Host = "muster.muster-system.svc"
	}
	r.Header.Set("Origin", origin)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Cookie", cookieOf[origin]+"="+as.Cookie.Reveal())
	r.Header.Set(keyHeader, as.Key.Reveal())
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// send returns the answer to a request, and whether a handler or a program got it.
func (b *bench) send(r *http.Request) (answer *http.Response, reached bool) {
	before := b.reached.Load()
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w.Result(), b.reached.Load() > before
}
