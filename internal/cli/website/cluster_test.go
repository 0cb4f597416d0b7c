package website_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin/idp"
	"github.com/muster-dev/muster/internal/people/web"
)

const (
	base     = "https://gpu.example.org/muster"
	callback = base + web.CallbackPath
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pages is the console of a cluster, at a port of this machine, behind a reverse proxy.
type pages struct {
	*website.Cluster
	idp   *idp.Provider
	at    string
	shift atomic.Int64 // of the console's clock
	stop  func()
}

// configured returns the configuration of a console that signs in at a provider.
func configured(p *idp.Provider, change func(*configuration.Console)) configuration.Console {
	c := configuration.Console{Port: website.DefaultPort, URL: base, Proxies: []string{"127.0.0.1"}, OIDC: &configuration.OIDC{Issuer: p.URL, ClientID: idp.ClientID,
		Scopes: []string{"offline_access"}, UsernameClaim: "sub", UsernamePrefix: "oidc:", GroupsClaim: "groups", GroupsPrefix: "oidc:"}}
	if change != nil {
		change(&c)
	}
	return c
}

func authorities(t testing.TB, p *idp.Provider) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.Authority()) {
		t.Fatal("the provider has no certificate")
	}
	return pool
}

func (p *pages) start(t *testing.T, o website.ClusterOptions) {
	t.Helper()
	o.Version, o.Log, o.Authorities = "test", slog.New(slog.DiscardHandler), authorities(t, p.idp)
	o.Now = func() time.Time { return time.Now().Add(time.Duration(p.shift.Load())) }
	var err error
	p.Cluster, err = website.NewCluster(t.Context(), o)
	must(t, err)
	listeners, err := web.Listen(t.Context(), "127.0.0.1", 0)
	must(t, err)
	p.at = listeners[0].Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, listeners...) }()
	var once atomic.Bool
	p.stop = func() {
		if once.CompareAndSwap(false, true) {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(p.stop)
}

// browser is one without pages, in front of the reverse proxy.
type browser struct {
	t       *testing.T
	p       *pages
	cookies map[string]string
	key     string
}

func (p *pages) browser(t *testing.T) *browser {
	return &browser{t: t, p: p, cookies: map[string]string{}}
}

// do sends a request as the proxy passes it on.
func (b *browser) do(method, path, body string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.p.at+path, bytes.NewReader([]byte(body)))
	must(b.t, err)
	r.Header.Set("X-Forwarded-Host", "gpu.example.org")
	r.Header.Set("X-Forwarded-Proto", "https")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", "https://gpu.example.org")
	}
	if b.key != "" {
		r.Header.Set("X-Muster-Key", b.key)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	must(b.t, err)
	text, err := io.ReadAll(answer.Body)
	must(b.t, err)
	must(b.t, answer.Body.Close())
	for _, c := range answer.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
		if !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "__Host-") {
			b.t.Errorf("a cookie without protection: %s", c.Name)
		}
	}
	return answer, string(text)
}

// begin goes to the provider, and returns the path to which that sends the browser back.
func (b *browser) begin() string {
	b.t.Helper()
	answer, text := b.do("GET", "/muster"+web.SignInPath, "")
	if answer.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("the sign-in begins with %s: %s", answer.Status, text)
	}
	back := b.p.idp.Visit(b.t, answer.Header.Get("Location"))
	if got := back.Scheme + "://" + back.Host + back.Path; got != callback {
		b.t.Fatalf("the provider leads to %s", got)
	}
	return back.RequestURI()
}

// enter opens the page to which the callback leads.
func (b *browser) enter(callback string) string {
	b.t.Helper()
	answer, text := b.do("GET", callback, "")
	to := answer.Header.Get("Location")
	link, ok := strings.CutPrefix(to, base+"/.muster/enter#")
	if answer.StatusCode != http.StatusSeeOther || !ok {
		b.t.Fatalf("the callback: %s to %q: %s", answer.Status, to, text)
	}
	var opened struct{ User, Key string }
	for range 2 {
		body, err := json.Marshal(map[string]string{"link": link, "user": opened.User})
		must(b.t, err)
		answer, text = b.do("POST", "/muster/.muster/enter/link", string(body))
		if answer.StatusCode != http.StatusOK {
			b.t.Fatalf("the link: %s: %s", answer.Status, text)
		}
		must(b.t, json.Unmarshal([]byte(text), &opened))
	}
	b.key = opened.Key
	return opened.User
}

// trusting is an API server that knows all tokens of a provider.
func trusting(t *testing.T, away *atomic.Bool) *rest.Config {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/apis/authentication.k8s.io/v1/selfsubjectreviews" && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey"):
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"status": {"userInfo": {"username": "sso:ann"}}}`))
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL, BearerToken: "the manager's"}
}

func newPages(t *testing.T) (*pages, *atomic.Bool, website.ClusterOptions) {
	t.Helper()
	away := &atomic.Bool{}
	p := &pages{idp: idp.Start(t, callback)}
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte(idp.Secret+"\n"), 0o600))
	o := website.ClusterOptions{Config: configured(p.idp, func(c *configuration.Console) { c.OIDC.ClientSecretFile = secret }), REST: trusting(t, away),
		Store: session.File{Path: filepath.Join(t.TempDir(), "sessions.json")}}
	p.start(t, o)
	return p, away, o
}

// TestClusterSignIn: a browser signs in at the provider, below a path prefix behind a proxy; the API server
// names the user; a restart keeps the session; signing out ends it.
func TestClusterSignIn(t *testing.T) {
	p, away, o := newPages(t)
	b := p.browser(t)
	if answer, text := b.do("GET", "/muster/", ""); answer.StatusCode != http.StatusOK || !strings.Contains(text, `data-signin="provider"`) {
		t.Errorf("the page: %s: %s", answer.Status, text)
	}
	if answer, text := b.do("GET", "/muster/api/me", ""); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "sign in at "+base+"/") {
		t.Errorf("without a session: %s: %s", answer.Status, text)
	}
	if user := b.enter(b.begin() + "&to=https://evil.example.org"); user != "sso:ann" {
		t.Errorf("the page names %s", user)
	}
	me := func() string {
		_, text := b.do("GET", "/muster/api/me", "")
		return text
	}
	if got := me(); !strings.Contains(got, `"api":{"user":"sso:ann"}`) || strings.Contains(got, "readOnly") {
		t.Errorf("ann is %s", got)
	}
	away.Store(true)
	if got := me(); !strings.Contains(got, "does not say who you are") {
		t.Errorf("while the API server is away: %s", got)
	}
	away.Store(false)

	p.stop()
	p.start(t, o)
	if got := me(); !strings.Contains(got, `"api":{"user":"sso:ann"}`) || p.idp.Renewed() != 1 {
		t.Errorf("after a restart, with %d renewals: %s", p.idp.Renewed(), got)
	}
	stolen := p.browser(t)
	for name, value := range b.cookies {
		stolen.cookies[name] = value
	}
	if answer, _ := stolen.do("GET", "/muster/api/me", ""); answer.StatusCode != http.StatusForbidden {
		t.Errorf("the cookie without its key: %s", answer.Status)
	}
	if answer, text := b.do("POST", "/muster/.muster/leave", ""); answer.StatusCode != http.StatusNoContent {
		t.Errorf("signing out: %s: %s", answer.Status, text)
	}
	if got := me(); !strings.Contains(got, "no session") {
		t.Errorf("after signing out: %s", got)
	}
}

// TestClusterRefusals: callbacks that are not this browser's own, and a provider or API server that is away.
func TestClusterRefusals(t *testing.T) {
	p, away, _ := newPages(t)
	fails := func(b *browser, path string, status int, says string) {
		t.Helper()
		answer, text := b.do("GET", path, "")
		if answer.StatusCode != status || !strings.Contains(text, says) || answer.Header.Get("Location") != "" {
			t.Errorf("%s to %q, want %d: %s", answer.Status, answer.Header.Get("Location"), status, text)
		}
	}
	ann, eve := p.browser(t), p.browser(t)
	back := ann.begin()
	fails(eve, back, http.StatusForbidden, "did not begin a sign-in here")
	eve.begin()
	fails(eve, back, http.StatusForbidden, "of another browser")
	cookies := map[string]string{}
	for name, value := range ann.cookies {
		cookies[name] = value
	}
	ann.enter(back)
	fails(ann, back, http.StatusForbidden, "did not begin a sign-in here") // its cookie was removed
	ann.cookies = cookies
	fails(ann, back, http.StatusForbidden, "it was used before")
	if answer, _ := ann.do("POST", "/muster"+web.CallbackPath, "{}"); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %s", answer.Status)
	}
	back = ann.begin()
	away.Store(true)
	fails(ann, back, http.StatusServiceUnavailable, "does not say who you are")
	away.Store(false)
	back = ann.begin()
	p.idp.Set(func(s *idp.Settings) { s.Away = true })
	fails(ann, back, http.StatusServiceUnavailable, "provider of sign-ins does not answer")
}

// TestClusterEnds: a user whom the provider does not renew loses the session; one who is another user now
// gets nothing.
func TestClusterEnds(t *testing.T) {
	p, _, _ := newPages(t)
	b := p.browser(t)
	b.enter(b.begin())
	p.shift.Store(int64(2 * time.Hour))
	p.idp.Set(func(s *idp.Settings) { s.Away = true })
	if _, text := b.do("GET", "/muster/api/me", ""); !strings.Contains(text, "does not answer") {
		t.Errorf("while the provider is away: %s", text)
	}
	p.idp.Set(func(s *idp.Settings) { s.Away, s.Refuse = false, true })
	if _, text := b.do("GET", "/muster/api/me", ""); !strings.Contains(text, "sign in again") {
		t.Errorf("when the provider refuses: %s", text)
	}
	if answer, _ := b.do("GET", "/muster/api/me", ""); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("after that: %s", answer.Status)
	}
}

// TestClusterOrigins: people sign in at one origin only, and a client without its secret is said at once.
func TestClusterOrigins(t *testing.T) {
	p, _, o := newPages(t)
	// At another origin of the same server there is no sign-in.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.at+web.SignInPath, http.NoBody)
	must(t, err)
	r.Host = fmt.Sprintf("localhost:%d", website.DefaultPort)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	must(t, answer.Body.Close())
	if answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("at localhost: %s", answer.Status)
	}
	o.Config.OIDC.ClientSecretFile = filepath.Join(t.TempDir(), "none")
	if _, err := website.NewCluster(t.Context(), o); err == nil || !strings.Contains(err.Error(), "clientSecretFile") {
		t.Errorf("without the secret: %v", err)
	}
}
