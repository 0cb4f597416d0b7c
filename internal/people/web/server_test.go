package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
)

var ada = session.Caller{User: "unix:61001"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// api is a Kubernetes API of a test: it knows each caller by their own way.
type api struct {
	asked atomic.Int64
	// away is what the API answers instead.
	away atomic.Pointer[Problem]
}

func (a *api) Of(_ context.Context, c session.Caller) (Way, error) {
	if c.User == "unix:61003" {
		return Way{}, errors.New("you have no credential here")
	}
	return Way{Server: &url.URL{Scheme: "https", Host: c.User}}, nil
}

func (a *api) Review(_ context.Context, w Way) (Identity, error) {
	return Identity{User: "api:" + w.Server.Host}, nil
}

func (a *api) GPUs(_ context.Context, w Way) (any, error) {
	a.asked.Add(1)
	if p := a.away.Load(); p != nil {
		return nil, p
	}
	type object = map[string]any
	held := object{"namespace": "vision", "job": "<b>" + w.Server.Host, "pod": "p", "since": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "done": "42%"}
	return object{"nodes": []object{{"name": "box", "ready": true, "gpus": []object{
		{"index": 0, "model": "H100", "uuid": "a", "holder": held}, {"index": 1, "model": "H100", "uuid": "b", "simulated": true},
		{"index": 2, "model": "H100", "uuid": "c", "foreign": []object{{"pid": 7, "user": "eve", "command": "python x.py"}}},
	}}}}, nil
}

// site is a server of a test at real ports.
type site struct {
	*Server
	api   *api
	table *session.Table
	path  string
	port  int
	shift atomic.Int64 // of the clock
	stop  func()
}

func newSite(t testing.TB, change func(*Options)) *site {
	t.Helper()
	s := &site{api: &api{}, path: filepath.Join(t.TempDir(), "sessions.json")}
	listeners, err := Listen(t.Context(), "", 0)
	must(t, err)
	s.start(t, listeners, change)
	return s
}

func (s *site) start(t testing.TB, listeners []net.Listener, change func(*Options)) {
	t.Helper()
	s.port = PortOf(listeners[0])
	var err error
	s.table, err = session.Open(t.Context(), session.Options{Store: session.File{Path: s.path}, Scopes: Scopes(),
		Now: func() time.Time { return time.Now().Add(time.Duration(s.shift.Load())) }})
	must(t, err)
	o := Options{Table: s.table, Port: s.port, Passage: s.api, Answers: s.api, Refresh: 20 * time.Millisecond, Version: "test"}
	if change != nil {
		change(&o)
	}
	s.Server, err = New(t.Context(), o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, nil, listeners...) }()
	var once atomic.Bool
	s.stop = func() {
		if once.CompareAndSwap(false, true) {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(s.stop)
}

// client is a signed-in browser without pages.
type client struct {
	t      testing.TB
	base   string
	origin string
	cookie *http.Cookie
	key    string
	via    *http.Client
}

// enter opens a link as the page does.
func enter(t testing.TB, via *http.Client, link string) (*client, int) {
	t.Helper()
	base, secret, _ := strings.Cut(link, gate.Entrance+"#")
	u, err := url.Parse(base)
	must(t, err)
	c := &client{t: t, base: base, origin: u.Scheme + "://" + u.Host, via: via}
	var named struct{ User, Key string }
	for range 2 {
		body, err := json.Marshal(map[string]string{"link": secret, "user": named.User})
		must(t, err)
		answer, text := c.do("POST", gate.Entrance+"/link", string(body))
		if answer.StatusCode != http.StatusOK {
			return nil, answer.StatusCode
		}
		must(t, json.Unmarshal([]byte(text), &named))
		for _, cookie := range answer.Cookies() {
			if cookie.MaxAge >= 0 {
				c.cookie = cookie
			}
		}
	}
	c.key = named.Key
	return c, http.StatusOK
}

func (c *client) request(method, path, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	must(c.t, err)
	r.Header.Set("Origin", c.origin)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cookie != nil {
		r.AddCookie(&http.Cookie{Name: c.cookie.Name, Value: c.cookie.Value})
	}
	if c.key != "" {
		r.Header.Set("X-Muster-Key", c.key)
	}
	return r
}

func (c *client) do(method, path, body string) (*http.Response, string) {
	c.t.Helper()
	answer, err := c.via.Do(c.request(method, path, body))
	must(c.t, err)
	text, err := io.ReadAll(answer.Body)
	must(c.t, err)
	must(c.t, answer.Body.Close())
	return answer, string(text)
}

func (s *site) signIn(t testing.TB, caller session.Caller) *client {
	t.Helper()
	link, err := s.Link(t.Context(), caller, 0)
	must(t, err)
	c, status := enter(t, http.DefaultClient, link)
	if c == nil {
		t.Fatalf("the link has the status %d", status)
	}
	return c
}

// TestAnswers: an answer comes by the way of its caller, and only with a session or a token's scope.
func TestAnswers(t *testing.T) {
	s := newSite(t, nil)
	mine, theirs := s.signIn(t, ada), s.signIn(t, session.Caller{User: "unix:61002"})
	for c, want := range map[*client]string{mine: "api:unix:61001", theirs: "api:unix:61002"} {
		_, text := c.do("GET", "/api/me", "")
		if !strings.Contains(text, `"`+want+`"`) {
			t.Errorf("me is %s, want %s", text, want)
		}
	}
	if _, text := mine.do("GET", "/api/gpus", ""); !strings.Contains(text, "unix:61001") {
		t.Errorf("the GPUs are %s", text)
	}
	stranger := s.signIn(t, session.Caller{User: "unix:61003"})
	if answer, text := stranger.do("GET", "/api/gpus", ""); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "no credential") {
		t.Errorf("a caller without a credential: %d %s", answer.StatusCode, text)
	}
	s.api.away.Store(&Problem{Status: http.StatusServiceUnavailable, Err: errors.New("the API server is away")})
	if answer, text := mine.do("GET", "/api/gpus", ""); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "is away") {
		t.Errorf("without an API server: %d %s", answer.StatusCode, text)
	}
	s.api.away.Store(nil)
	before := s.api.asked.Load()
	nobody := &client{t: t, base: mine.base, origin: mine.origin, via: http.DefaultClient}
	for _, path := range []string{"/api/me", "/api/gpus", "/api/watch", "/api/sessions"} {
		if answer, _ := nobody.do("GET", path, ""); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a session: %d", path, answer.StatusCode)
		}
	}
	secret, _, err := s.table.CreateToken(t.Context(), ada, session.TokenSpec{Name: "report", Scopes: []string{ScopeRead}, Lifetime: time.Hour})
	must(t, err)
	for path, want := range map[string]int{"/api/gpus": 200, "/api/sessions": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", mine.base+path, http.NoBody)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+secret.Reveal())
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != want {
			t.Errorf("%s with a token to read: %d, want %d", path, answer.StatusCode, want)
		}
	}
	if asked := s.api.asked.Load() - before; asked != 1 {
		t.Errorf("the API was asked %d times, want 1", asked)
	}
}

// TestRevokeByPage: a user lists and ends their own sessions only, and a stream ends with its session.
func TestRevokeByPage(t *testing.T) {
	s := newSite(t, nil)
	mine, other, theirs := s.signIn(t, ada), s.signIn(t, ada), s.signIn(t, session.Caller{User: "unix:61002"})
	var list []entry
	_, text := mine.do("GET", "/api/sessions", "")
	must(t, json.Unmarshal([]byte(text), &list))
	if len(list) != 2 || list[0].Current || !list[1].Current {
		t.Fatalf("sessions: %s", text)
	}
	stream, err := http.DefaultClient.Do(other.request("GET", "/api/watch", ""))
	must(t, err)
	defer func() { _ = stream.Body.Close() }()
	if _, err := io.ReadFull(stream.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if answer, _ := theirs.do("DELETE", "/api/sessions/"+list[0].ID, ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("another user's session: %d", answer.StatusCode)
	}
	if answer, text := mine.do("DELETE", "/api/sessions/"+list[0].ID, ""); answer.StatusCode != http.StatusNoContent {
		t.Errorf("revoking: %d %s", answer.StatusCode, text)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // ends
		t.Error(err)
	}
	if answer, _ := other.do("GET", "/api/me", ""); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the revoked session: %d", answer.StatusCode)
	}
	if answer, _ := mine.do("DELETE", "/api/sessions/"+list[1].ID, ""); answer.StatusCode != http.StatusNoContent {
		t.Errorf("revoking the own session: %d", answer.StatusCode)
	}
}

// TestTunnels: a session at the port of a tunnel goes on after a restart, and ports without sessions
// make room for others.
func TestTunnels(t *testing.T) {
	s := newSite(t, nil)
	link, err := s.Link(t.Context(), ada, 40123)
	must(t, err)
	if !strings.HasPrefix(link, "http://localhost:40123"+gate.Entrance+"#muster-link.") {
		t.Fatalf("the link of a tunnel is %s", link)
	}
	forward := func() *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(s.port))
		}}}
	}
	mine, status := enter(t, forward(), link)
	if mine == nil {
		t.Fatalf("the link has the status %d", status)
	}
	s.stop()
	listeners, err := Listen(t.Context(), "", 0)
	must(t, err)
	s.start(t, listeners, nil)
	mine.via = forward()
	if answer, text := mine.do("GET", "/api/me", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("after a restart: %d %s", answer.StatusCode, text)
	}
	for port := range 3 * mostPorts {
		if _, err := s.Link(t.Context(), ada, 41000+port); err != nil {
			t.Fatalf("port %d: %v", 41000+port, err)
		}
	}
	if len(s.ports) > mostPorts {
		t.Errorf("%d ports are served", len(s.ports))
	}
	if answer, _ := mine.do("GET", "/api/me", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("the port with a session made room: %d", answer.StatusCode)
	}
	if _, err := s.Link(t.Context(), ada, 70000); err == nil {
		t.Error("a port above 65535 was taken")
	}
}

// TestTunnelsOfUsers: the tunnels and links of one user take no port from another.
func TestTunnelsOfUsers(t *testing.T) {
	s := newSite(t, nil)
	eve := session.Caller{User: "unix:61002"}
	link, err := s.Link(t.Context(), ada, 40123)
	must(t, err)
	for port := range 2 * mostPorts {
		if _, err := s.Link(t.Context(), eve, 41000+port); err != nil {
			t.Fatalf("port %d: %v", 41000+port, err)
		}
	}
	if got := s.portsOf(eve.User); got > mostPorts {
		t.Errorf("one user has %d ports", got)
	}
	for i := range mostTunnels { // others fill the rest with links that no session follows
		if _, err := s.Link(t.Context(), session.Caller{User: fmt.Sprint("unix:", 62000+i%100)}, 42000+i); err != nil {
			if !strings.Contains(err.Error(), "tunnels of all users") {
				t.Fatal(err)
			}
			break
		}
	}
	via := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(s.port))
	}}}
	if mine, status := enter(t, via, link); mine == nil {
		t.Errorf("ada's link has the status %d", status)
	}
}

// TestReverseProxy: a real reverse proxy with TLS, below a path prefix.
func TestReverseProxy(t *testing.T) {
	var target *url.URL
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.SetXForwarded()
		}}).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	external, err := url.Parse(proxy.URL + "/muster")
	must(t, err)
	external.Host = "localhost:" + external.Port()
	s := newSite(t, func(o *Options) {
		o.External, o.Proxies = external, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	target = &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(s.port)}
	link, err := s.Link(t.Context(), ada, 0)
	must(t, err)
	via := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a certificate of the test
	t.Cleanup(via.CloseIdleConnections)
	mine, status := enter(t, via, link)
	if mine == nil {
		t.Fatalf("%s has the status %d", link, status)
	}
	if !strings.HasPrefix(mine.cookie.Name, "__Host-muster-") {
		t.Errorf("the cookie is %s", mine.cookie.Raw)
	}
	for path, want := range map[string]int{"/api/me": 200, "/": 200, "/assets/console.js": 200, "/assets/other.js": 404} {
		if answer, text := mine.do("GET", path, ""); answer.StatusCode != want {
			t.Errorf("%s: %d %s", path, answer.StatusCode, text)
		}
	}
}

// TestListen: both loopback addresses, and a sentence about a port that is taken at one of them.
func TestListen(t *testing.T) {
	all, err := Listen(t.Context(), "", 0)
	must(t, err)
	port := PortOf(all[0])
	for _, l := range all {
		if PortOf(l) != port {
			t.Errorf("listeners at %s and port %d", l.Addr(), port)
		}
		if !netip.MustParseAddrPort(l.Addr().String()).Addr().IsLoopback() {
			t.Errorf("a listener at %s", l.Addr())
		}
	}
	for i := range all {
		keep := all[i]
		for k, l := range all {
			if k != i {
				must(t, l.Close())
			}
		}
		var taken *TakenError
		if _, err := Listen(t.Context(), "", port); !errors.As(err, &taken) || taken.Address != keep.Addr().String() {
			t.Errorf("with %s in use: %v", keep.Addr(), err)
		}
		must(t, keep.Close())
		if all, err = Listen(t.Context(), "", port); err != nil {
			t.Fatalf("after a failure: %v", err) // the other listener was closed
		}
	}
	for _, l := range all {
		must(t, l.Close())
	}
}

// TestCertificate: files that change are read again, and half a change is not used.
func TestCertificate(t *testing.T) {
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	writePair(t, certificate, key, "first.example")
	now := time.Now()
	c, err := OpenCertificate(certificate, key, discard())
	must(t, err)
	c.now = func() time.Time { return now }
	listeners, err := Listen(t.Context(), "", 0)
	must(t, err)
	external := &url.URL{Scheme: "https", Host: "localhost:" + strconv.Itoa(PortOf(listeners[0]))}
	table, err := session.Open(t.Context(), session.Options{Store: session.File{Path: filepath.Join(folder, "s.json")}})
	must(t, err)
	server, err := New(t.Context(), Options{Table: table, TLS: true, External: external, Port: PortOf(listeners[0]), Passage: &api{}, Answers: &api{}})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, c, listeners...) }()
	name := func() string {
		t.Helper()
		now = now.Add(2 * lookEvery)
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", external.Host) //nolint:gosec // a certificate of the test
		must(t, err)
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "first.example" {
		t.Errorf("the certificate is of %s", got)
	}
	must(t, os.WriteFile(key, []byte("half"), 0o600))
	if got := name(); got != "first.example" {
		t.Errorf("with half a key the certificate is of %s", got)
	}
	writePair(t, certificate, key, "second.example")
	if got := name(); got != "second.example" {
		t.Errorf("after a change the certificate is of %s", got)
	}
	if _, err := server.Link(t.Context(), ada, 40000); err == nil {
		t.Error("a server of TLS gave a link for a tunnel of http")
	}
	cancel()
	must(t, <-ended)
	if _, err := OpenCertificate(key, certificate, discard()); err == nil {
		t.Error("a key was taken as a certificate")
	}
}

func writePair(t *testing.T, certificate, key, name string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	must(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// TestPageHasNoInlineCode: the page asks for files of this server only.
func TestPageHasNoInlineCode(t *testing.T) {
	files, err := assets.ReadDir("assets")
	must(t, err)
	for _, file := range files {
		text, err := assets.ReadFile("assets/" + file.Name())
		must(t, err)
		for _, bad := range []string{"https://", "http://", "innerHTML", "eval(", " style=", " onclick=", "<style"} {
			page := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
			if strings.Contains(page, bad) {
				t.Errorf("%s contains %q", file.Name(), bad)
			}
		}
	}
}

func BenchmarkRights(b *testing.B) {
	s := newSite(b, nil)
	var clients []*client
	for n := range 200 {
		clients = append(clients, s.signIn(b, session.Caller{User: fmt.Sprint("unix:", 70000+n/4)}))
	}
	times := make([]time.Duration, 0, b.N)
	for n := 0; b.Loop(); n++ {
		w, r := httptest.NewRecorder(), clients[n%len(clients)].request("GET", "/api/gpus", "")
		r.RequestURI, r.Host, r.RemoteAddr = "/api/gpus", r.URL.Host, "127.0.0.1:1"
		r.URL.Scheme, r.URL.Host = "", ""
		start := time.Now()
		s.gate.ServeHTTP(w, r)
		times = append(times, time.Since(start))
		if w.Code != http.StatusOK {
			b.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	report(b, times)
}
