package website_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	"github.com/muster-dev/muster/internal/people/signin/browser"
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

func (p *pages) browser(t *testing.T) *browser.Browser { return browser.New(t, p.idp, base, p.at) }

// enter signs in and returns the user.
func enter(t *testing.T, b *browser.Browser, back string) string {
	t.Helper()
	user, status := b.Enter(back)
	if status != 0 {
		t.Fatalf("the link: %d", status)
	}
	return user
}

// subject is the user of the token of a request.
func subject(r *http.Request) string {
	parts := strings.Split(r.Header.Get("Authorization"), ".")
	if len(parts) != 3 {
		return ""
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1]) // a token of the provider
	var claims struct{ Sub string }
	_ = json.Unmarshal(text, &claims)
	return claims.Sub
}

// trusting is an API server that knows the tokens of ann.
func trusting(t *testing.T, away *atomic.Bool) *rest.Config {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/apis/authentication.k8s.io/v1/selfsubjectreviews" && subject(r) == "ann":
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
	if answer, text := b.Get("/"); answer.StatusCode != http.StatusOK || !strings.Contains(text, `data-signin="provider"`) {
		t.Errorf("the page: %s: %s", answer.Status, text)
	}
	if answer, text := b.Get("/api/me"); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "sign in at "+base+"/") {
		t.Errorf("without a session: %s: %s", answer.Status, text)
	}
	if user := enter(t, b, b.Begin()+"&to=https://evil.example.org"); user != "sso:ann" {
		t.Errorf("the page names %s", user)
	}
	me := func() string {
		_, text := b.Get("/api/me")
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
	b.At = p.at
	if got := me(); !strings.Contains(got, `"api":{"user":"sso:ann"}`) || p.idp.Renewed() != 1 {
		t.Errorf("after a restart, with %d renewals: %s", p.idp.Renewed(), got)
	}
	if answer, _ := b.Copy().Get("/api/me"); answer.StatusCode != http.StatusForbidden {
		t.Errorf("the cookie without its key: %s", answer.Status)
	}
	if answer, text := b.Post("/.muster/leave", ""); answer.StatusCode != http.StatusNoContent {
		t.Errorf("signing out: %s: %s", answer.Status, text)
	}
	if got := me(); !strings.Contains(got, "no session") {
		t.Errorf("after signing out: %s", got)
	}
}

// TestClusterRefusals: callbacks that are not this browser's own, and a provider or API server that is away.
func TestClusterRefusals(t *testing.T) {
	p, away, _ := newPages(t)
	fails := func(b *browser.Browser, path string, status int, says string) {
		t.Helper()
		answer, text := b.Get(path)
		if answer.StatusCode != status || !strings.Contains(text, says) || answer.Header.Get("Location") != "" {
			t.Errorf("%s to %q, want %d: %s", answer.Status, answer.Header.Get("Location"), status, text)
		}
	}
	ann, eve := p.browser(t), p.browser(t)
	back := ann.Begin()
	fails(eve, back, http.StatusForbidden, "did not begin a sign-in here")
	eve.Begin()
	fails(eve, back, http.StatusForbidden, "of another browser")
	again := ann.Copy()
	enter(t, ann, back)
	fails(ann, back, http.StatusForbidden, "did not begin a sign-in here") // its cookie was removed
	fails(again, back, http.StatusForbidden, "it was used before")
	if answer, _ := ann.Post(web.CallbackPath, "{}"); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %s", answer.Status)
	}
	back = ann.Begin()
	away.Store(true)
	fails(ann, back, http.StatusServiceUnavailable, "does not say who you are")
	away.Store(false)
	back = ann.Begin()
	p.idp.Set(func(s *idp.Settings) { s.Away = true })
	fails(ann, back, http.StatusServiceUnavailable, "provider of sign-ins does not answer")
}

// TestClusterRefusedUser: the API server trusts the provider and refuses one user, so the manager does not
// read for this user either.
func TestClusterRefusedUser(t *testing.T) {
	p, _, _ := newPages(t)
	ann := p.browser(t)
	enter(t, ann, ann.Begin())
	p.idp.Set(func(s *idp.Settings) { s.User = "banned" })
	other := p.browser(t)
	if answer, text := other.Get(other.Begin()); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "refuses your token") {
		t.Errorf("%s: %s", answer.Status, text)
	}
}

// TestClusterEnds: a user whom the provider does not renew loses the session; one who is another user now
// gets nothing.
func TestClusterEnds(t *testing.T) {
	p, _, _ := newPages(t)
	b := p.browser(t)
	enter(t, b, b.Begin())
	p.shift.Store(int64(2 * time.Hour))
	p.idp.Set(func(s *idp.Settings) { s.Away = true })
	if _, text := b.Get("/api/me"); !strings.Contains(text, "does not answer") {
		t.Errorf("while the provider is away: %s", text)
	}
	p.idp.Set(func(s *idp.Settings) { s.Away, s.Refuse = false, true })
	if _, text := b.Get("/api/me"); !strings.Contains(text, "sign in again") {
		t.Errorf("when the provider refuses: %s", text)
	}
	if answer, _ := b.Get("/api/me"); answer.StatusCode != http.StatusUnauthorized {
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
