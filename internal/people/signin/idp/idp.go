package idp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The client that every provider knows.
const (
	ClientID = "muster"
	Secret   = "the secret of the client" //nolint:gosec // of tests
)

// Settings say how the provider answers.
type Settings struct {
	// User is signed in at the provider.
	User   string
	Groups []string
	// Life is that of ID tokens.
	Life time.Duration
	// Skew is by how much the provider's clock is ahead.
	Skew time.Duration
	// Claims replace others.
	Claims map[string]any
	// Away answers with 503 only.
	Away bool
	// Refuse refuses refresh tokens, as of a user who was removed.
	Refuse bool
	// NoRefresh gives none.
	NoRefresh bool
	// OtherKey signs with a key that the provider does not publish.
	OtherKey bool
}

// grant is what a code stands for.
type grant struct{ challenge, nonce, redirect string }

// Provider is a running provider.
type Provider struct {
	// URL is the issuer.
	URL      string
	redirect string
	server   *httptest.Server
	key      *ecdsa.PrivateKey
	other    *ecdsa.PrivateKey

	mu        sync.Mutex
	settings  Settings
	codes     map[string]grant
	refreshes map[string]bool
	renewed   int
}

// Start starts a provider that sends browsers to one address only.
func Start(t testing.TB, redirect string) *Provider {
	t.Helper()
	p := &Provider{redirect: redirect, settings: Settings{User: "ann", Life: time.Hour}, codes: map[string]grant{}, refreshes: map[string]bool{}}
	for _, key := range []**ecdsa.PrivateKey{&p.key, &p.other} {
		var err error
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discover)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.now().Away {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	p.URL = p.server.URL
	t.Cleanup(p.server.Close)
	return p
}

// Set changes the settings.
func (p *Provider) Set(change func(*Settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.settings)
}

// Renewed is the number of refresh tokens that were used.
func (p *Provider) Renewed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

// Client returns a client that trusts the provider.
func (p *Provider) Client() *http.Client { return p.server.Client() }

// Authority returns the certificate of the provider, as PEM.
func (p *Provider) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Visit opens an address of the provider as a browser does, and returns where the provider sends it.
func (p *Provider) Visit(t testing.TB, address string) *url.URL {
	t.Helper()
	client := *p.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	to, err := answer.Location()
	if err != nil {
		t.Fatalf("the provider answers %s: %v", answer.Status, err)
	}
	return to
}

func (p *Provider) now() Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

func (p *Provider) discover(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
}

// authorize sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("redirect_uri") != p.redirect || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" {
		http.Error(w, "the request names another client or address, or has no challenge", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = grant{challenge: q.Get("code_challenge"), nonce: q.Get("nonce"), redirect: p.redirect}
	p.mu.Unlock()
	http.Redirect(w, r, p.redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode(), http.StatusSeeOther)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	}
	if id != ClientID || secret != Secret {
		write(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	nonce, ok := p.redeem(r)
	if !ok {
		write(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	answer := map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": p.Sign(nonce)}
	if !p.now().NoRefresh {
		refresh := rand.Text()
		p.mu.Lock()
		p.refreshes[refresh] = true
		p.mu.Unlock()
		answer["refresh_token"] = refresh
	}
	write(w, http.StatusOK, answer)
}

// redeem uses up a code or a refresh token.
func (p *Provider) redeem(r *http.Request) (nonce string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.PostFormValue("grant_type") == "refresh_token" {
		token := r.PostFormValue("refresh_token")
		ok = p.refreshes[token] && !p.settings.Refuse
		delete(p.refreshes, token)
		p.renewed++
		return "", ok
	}
	code := r.PostFormValue("code")
	g, ok := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	return g.nonce, ok && g.challenge == base64.RawURLEncoding.EncodeToString(sum[:]) && r.PostFormValue("redirect_uri") == g.redirect
}

// Sign returns an ID token of the user who is signed in.
func (p *Provider) Sign(nonce string) string {
	s := p.now()
	key, now := p.key, time.Now().Add(s.Skew)
	if s.OtherKey {
		key = p.other
	}
	claims := map[string]any{"iss": p.URL, "sub": s.User, "aud": ClientID, "exp": now.Add(s.Life).Unix(), "iat": now.Unix(), "jti": rand.Text(), "groups": s.Groups}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	maps.Copy(claims, s.Claims)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	if err != nil {
		panic(err) // the key is one for this algorithm
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err) // claims are JSON
	}
	return text
}

func write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
