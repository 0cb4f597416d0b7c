package signin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

const (
	// patience bounds a request to the provider.
	patience = 10 * time.Second
	// skew is by how much the clock of the provider may be ahead.
	skew = 5 * time.Minute
	// mostExchanges bounds the requests to the provider that callers without a session cause at one time.
	mostExchanges = 32
)

// Errors of a sign-in and of a renewal.
var (
	// ErrAway means that the provider does not answer. Trying again may help.
	ErrAway = errors.New("the provider of sign-ins does not answer: try again in a moment")
	// ErrRefused means that this sign-in does not count. The user signs in again.
	ErrRefused = errors.New("this sign-in does not count")
	// ErrEnded means that the provider does not renew a token: the user signs in again.
	ErrEnded = errors.New("your sign-in has ended: sign in again")
)

// Options are the parts of a provider.
type Options struct {
	// Issuer is the address of the provider, as in its tokens.
	Issuer   string
	ClientID string
	// Secret returns the client's secret, for each request, so that a new one counts. Nil means a public
	// client, which PKCE alone protects.
	Secret func() (string, error)
	// Redirect is the address of the callback, which the provider knows.
	Redirect string
	// Scopes are asked for beside openid.
	Scopes []string
	// Client connects to the provider. It needs a limit of time, since keys are read by it alone; nil means
	// one with the authorities of the system.
	Client *http.Client
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Provider is a provider of OpenID Connect. It is asked for its settings with the first sign-in.
type Provider struct {
	o   Options
	box cipher.AEAD // of cookies

	asking    singleflight.Group
	exchanges chan struct{} // those at one time

	mu    sync.Mutex
	known *oidc.Provider
	used  map[string]time.Time // states, until their cookies expire
}

// Token is an ID token that was verified.
type Token struct {
	// Raw is the token itself.
	Raw string
	// Renewal is the refresh token; empty if the provider gives none.
	Renewal string
	Subject string
	Expires time.Time
	claims  *oidc.IDToken
}

// Claims decodes the claims of the token.
func (t Token) Claims(into any) error { return t.claims.Claims(into) }

// New returns a provider.
func New(o Options) (*Provider, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: patience}
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Provider{o: o, box: box, exchanges: make(chan struct{}, mostExchanges), used: map[string]time.Time{}}, nil
}

// client adds the HTTP client and the limit of time for requests to the provider.
func (p *Provider) client(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	return oidc.ClientContext(ctx, p.o.Client), cancel
}

// settings returns the provider's addresses and keys.
func (p *Provider) settings(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		ctx, cancel := p.client(context.WithoutCancel(ctx))
		defer cancel()
		found, err := oidc.NewProvider(ctx, p.o.Issuer)
		if err != nil {
			return nil, fmt.Errorf("%w: reading the settings of %s: %w", ErrAway, p.o.Issuer, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.known = found
		return found, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-answer:
		known, _ = a.Val.(*oidc.Provider)
		return known, a.Err
	}
}

func (p *Provider) config(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	known, err := p.settings(ctx)
	if err != nil {
		return nil, nil, err
	}
	var secret string
	if p.o.Secret != nil {
		if secret, err = p.o.Secret(); err != nil {
			return nil, nil, fmt.Errorf("reading the secret of the client: %w", err)
		}
	}
	return &oauth2.Config{ClientID: p.o.ClientID, ClientSecret: secret, Endpoint: known.Endpoint(), RedirectURL: p.o.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.o.Scopes...)}, known, nil
}

// Begin returns the address at the provider to which a browser goes, and the value of a cookie that this
// browser sends back to [Provider.Finish].
func (p *Provider) Begin(ctx context.Context) (address, cookie string, err error) {
	config, _, err := p.config(ctx)
	if err != nil {
		return "", "", err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Begun: p.o.Now().Unix()}
	if cookie, err = p.seal(a); err != nil {
		return "", "", err
	}
	return config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), cookie, nil
}

// Finish checks the parameters with which the provider has sent the browser back, and exchanges the code.
func (p *Provider) Finish(ctx context.Context, cookie string, query url.Values) (Token, error) {
	a, err := p.take(cookie, query)
	if err != nil {
		return Token{}, err
	}
	config, known, err := p.config(ctx)
	if err != nil {
		return Token{}, err
	}
	ctx, cancel := p.client(ctx)
	defer cancel()
	select {
	case p.exchanges <- struct{}{}:
		defer func() { <-p.exchanges }()
	case <-ctx.Done():
		return Token{}, fmt.Errorf("%w: too many people sign in at this moment", ErrAway)
	}
	answer, err := config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Token{}, p.failed("exchanging the code", err, ErrRefused)
	}
	token, err := p.verify(ctx, known, answer, ErrRefused)
	if err == nil && token.claims.Nonce != a.Nonce {
		err = fmt.Errorf("%w: the nonce of the token is of another sign-in", ErrRefused)
	}
	if err != nil {
		return Token{}, err
	}
	return token, nil
}

// Renew gets a new token for the subject of the former.
func (p *Provider) Renew(ctx context.Context, renewal, subject string) (Token, error) {
	config, known, err := p.config(ctx)
	if err != nil {
		return Token{}, err
	}
	ctx, cancel := p.client(ctx)
	defer cancel()
	answer, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: renewal}).Token()
	if err != nil {
		return Token{}, p.failed("renewing the token", err, ErrEnded)
	}
	token, err := p.verify(ctx, known, answer, ErrEnded)
	if err == nil && subject != "" && token.Subject != subject {
		err = fmt.Errorf("%w: the provider answers with a token of another user", ErrEnded)
	}
	if err != nil {
		return Token{}, err
	}
	return token, nil
}

// Check verifies a token that this process has had before.
func (p *Provider) Check(ctx context.Context, raw, renewal string) (Token, error) {
	known, err := p.settings(ctx)
	if err != nil {
		return Token{}, err
	}
	ctx, cancel := p.client(ctx)
	defer cancel()
	return p.verify(ctx, known, (&oauth2.Token{RefreshToken: renewal}).WithExtra(map[string]any{"id_token": raw}), ErrEnded)
}

// failed tells a refusal of the provider from a provider that is away.
func (p *Provider) failed(doing string, err, refused error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch { // an answer of the provider may be long, so it is not part of the error
	case !ok || answer.Response == nil:
		return fmt.Errorf("%w: %s: %w", ErrAway, doing, err)
	case answer.Response.StatusCode >= http.StatusInternalServerError || answer.Response.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s: its status is %s", ErrAway, doing, printable(answer.Response.Status))
	case answer.ErrorCode == "invalid_client" || answer.ErrorCode == "unauthorized_client":
		return fmt.Errorf("%s: the provider %s refuses the client %s: an administrator checks its ID and its secret", doing, p.o.Issuer, p.o.ClientID)
	}
	return fmt.Errorf("%w: %s: the provider answers %q", refused, doing, printable(answer.ErrorCode))
}

// verify checks the ID token of an answer. The nonce is for the caller.
func (p *Provider) verify(ctx context.Context, known *oidc.Provider, answer *oauth2.Token, refused error) (Token, error) {
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return Token{}, fmt.Errorf("%w: the provider answers without an ID token: the client needs the scope openid", refused)
	}
	now := p.o.Now()
	checked, err := known.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: func() time.Time { return now }}).Verify(ctx, raw)
	expired, late := errors.AsType[*oidc.TokenExpiredError](err)
	switch {
	case late:
		return Token{}, fmt.Errorf("%w: the token expired at %s, and here it is %s: sign in again, and if that does not help, an administrator compares the clocks", refused, expired.Expiry.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case err != nil && strings.Contains(err.Error(), "fetching keys"):
		return Token{}, fmt.Errorf("%w: reading the keys of %s: %w", ErrAway, p.o.Issuer, err)
	case err != nil:
		return Token{}, fmt.Errorf("%w: %w", refused, err)
	case checked.IssuedAt.After(now.Add(skew)):
		return Token{}, fmt.Errorf("%w: the token is from %s, and here it is %s: an administrator corrects the clocks", refused, checked.IssuedAt.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case checked.Subject == "":
		return Token{}, fmt.Errorf("%w: the token names no subject", refused)
	}
	if err := p.checkParty(checked); err != nil {
		return Token{}, fmt.Errorf("%w: %w", refused, err)
	}
	return Token{Raw: raw, Renewal: answer.RefreshToken, Subject: checked.Subject, Expires: checked.Expiry, claims: checked}, nil
}

// checkParty checks for whom a token with several audiences was made.
func (p *Provider) checkParty(checked *oidc.IDToken) error {
	var claims struct {
		Party string `json:"azp"`
	}
	if err := checked.Claims(&claims); err != nil {
		return fmt.Errorf("reading the claims: %w", err)
	}
	if claims.Party != "" && claims.Party != p.o.ClientID || claims.Party == "" && len(slices.Compact(slices.Sorted(slices.Values(checked.Audience)))) > 1 {
		return fmt.Errorf("the token was made for the client %q, and this is %q", printable(claims.Party), p.o.ClientID)
	}
	return nil
}
