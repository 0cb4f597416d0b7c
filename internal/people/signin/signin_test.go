package signin

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin/idp"
)

const redirect = "https://muster.example.org/m/.muster/signin/callback"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a provider and the side of Muster.
type stage struct {
	*Provider
	idp   *idp.Provider
	shift atomic.Int64 // of Muster's clock
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{idp: idp.Start(t, redirect)}
	var err error
	s.Provider, err = New(Options{Issuer: s.idp.URL, ClientID: idp.ClientID, Secret: func() (string, error) { return idp.Secret, nil }, Redirect: redirect,
		Client: s.idp.Client(), Now: func() time.Time { return time.Now().Add(time.Duration(s.shift.Load())) }})
	must(t, err)
	return s
}

// begin goes to the provider and back.
func (s *stage) begin(t *testing.T) (cookie string, back url.Values) {
	t.Helper()
	address, cookie, err := s.Begin(t.Context())
	must(t, err)
	return cookie, s.idp.Visit(t, address).Query()
}

// TestSignIn: a browser goes to the provider and comes back with a token of its user.
func TestSignIn(t *testing.T) {
	s := newStage(t)
	cookie, back := s.begin(t)
	token, err := s.Finish(t.Context(), cookie, back)
	must(t, err)
	var claims struct{ Sub string }
	must(t, token.Claims(&claims))
	if token.Subject != "ann" || claims.Sub != "ann" || token.Renewal == "" || time.Until(token.Expires) < 50*time.Minute {
		t.Errorf("the token is of %q, until %s", token.Subject, token.Expires)
	}
	for _, secret := range []string{back.Get("state"), "verifier"} {
		if strings.Contains(cookie, secret) {
			t.Errorf("the cookie shows %s", secret)
		}
	}
}

// TestRefused: each way in which a sign-in is not the browser's own, or its token not one for this client.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		// before changes the provider, or Muster, before the sign-in begins.
		before func(*stage)
		// change changes what comes back.
		change func(t *testing.T, s *stage, cookie *string, back url.Values)
		says   string
	}{
		{name: "a replayed state", says: "it was used before", change: func(t *testing.T, s *stage, cookie *string, back url.Values) {
			_, err := s.Finish(t.Context(), *cookie, back)
			must(t, err)
		}},
		{name: "a state of another browser", says: "of another browser", change: func(t *testing.T, s *stage, cookie *string, _ url.Values) {
			*cookie, _ = s.begin(t)
		}},
		{name: "a browser that did not begin", says: "this browser did not begin it", change: func(_ *testing.T, _ *stage, cookie *string, _ url.Values) { *cookie = "" }},
		{name: "a cookie of another process", says: "this browser did not begin it", change: func(t *testing.T, _ *stage, cookie *string, _ url.Values) {
			*cookie, _ = newStage(t).begin(t)
		}},
		{name: "two states", says: "of another browser", change: func(_ *testing.T, _ *stage, _ *string, back url.Values) { back.Add("state", "x") }},
		{name: "another provider", says: "another provider", change: func(_ *testing.T, _ *stage, _ *string, back url.Values) { back.Set("iss", "https://evil.example.org") }},
		{name: "a code of another browser", says: "invalid_grant", change: func(t *testing.T, s *stage, _ *string, back url.Values) {
			_, other := s.begin(t)
			back.Set("code", other.Get("code"))
		}},
		{name: "no code", says: "has no code", change: func(_ *testing.T, _ *stage, _ *string, back url.Values) { back.Del("code") }},
		{name: "the user says no", says: `"access_denied"`, change: func(_ *testing.T, _ *stage, _ *string, back url.Values) { back.Set("error", "access_denied\n") }},
		{name: "too late", says: "longer than 10m", change: func(_ *testing.T, s *stage, _ *string, _ url.Values) { s.shift.Store(int64(11 * time.Minute)) }},
		{name: "another audience", says: "audience", before: claim("aud", "other")},
		{name: "made for another client", says: "made for the client", before: claim("azp", "other")},
		{name: "two audiences and no party", says: "made for the client", before: claim("aud", []string{"muster", "other"})},
		{name: "another issuer", says: "issued by a different provider", before: claim("iss", "https://evil.example.org")},
		{name: "another nonce", says: "the nonce", before: claim("nonce", "x")},
		{name: "no nonce", says: "the nonce", before: claim("nonce", "")},
		{name: "no subject", says: "no subject", before: claim("sub", "")},
		{name: "another key", says: "failed to verify", before: func(s *stage) { s.idp.Set(func(i *idp.Settings) { i.OtherKey = true }) }},
		{name: "expired", says: "compares the clocks", before: func(s *stage) { s.idp.Set(func(i *idp.Settings) { i.Life = -time.Minute }) }},
		{name: "the provider's clock is an hour behind", says: "compares the clocks", before: func(s *stage) { s.idp.Set(func(i *idp.Settings) { i.Skew = -61 * time.Minute }) }},
		{name: "the provider's clock is an hour ahead", says: "corrects the clocks", before: func(s *stage) { s.idp.Set(func(i *idp.Settings) { i.Skew = time.Hour }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			if c.before != nil {
				c.before(s)
			}
			cookie, back := s.begin(t)
			if c.change != nil {
				c.change(t, s, &cookie, back)
			}
			token, err := s.Finish(t.Context(), cookie, back)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.says) || token.Raw != "" {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func claim(name string, value any) func(*stage) {
	return func(s *stage) { s.idp.Set(func(i *idp.Settings) { i.Claims = map[string]any{name: value} }) }
}

// TestSkew: clocks that differ by two minutes do no harm.
func TestSkew(t *testing.T) {
	for _, by := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
		s := newStage(t)
		s.idp.Set(func(i *idp.Settings) { i.Skew = by })
		cookie, back := s.begin(t)
		if _, err := s.Finish(t.Context(), cookie, back); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
}

// TestAway: a provider that does not answer is not the user's fault, and is asked again later.
func TestAway(t *testing.T) {
	s := newStage(t)
	away := func(is bool) { s.idp.Set(func(i *idp.Settings) { i.Away = is }) }
	away(true)
	if _, _, err := s.Begin(t.Context()); !errors.Is(err, ErrAway) {
		t.Errorf("at the begin: %v", err)
	}
	away(false)
	cookie, back := s.begin(t)
	away(true)
	if _, err := s.Finish(t.Context(), cookie, back); !errors.Is(err, ErrAway) {
		t.Errorf("at the end: %v", err)
	}
	away(false)
	cookie, back = s.begin(t)
	if _, err := s.Finish(t.Context(), cookie, back); err != nil {
		t.Errorf("later: %v", err)
	}
	s.o.Secret = func() (string, error) { return "wrong", nil }
	cookie, back = s.begin(t)
	if _, err := s.Finish(t.Context(), cookie, back); err == nil || errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "refuses the client muster") {
		t.Errorf("with a wrong secret: %v", err)
	}
}

// open makes a session of the user at the provider, and a function for its newest grant.
func (s *stage) open(t *testing.T, file session.File) (*session.Table, string) {
	t.Helper()
	cookie, back := s.begin(t)
	token, err := s.Finish(t.Context(), cookie, back)
	must(t, err)
	table, err := session.Open(t.Context(), session.Options{Store: file})
	must(t, err)
	link, err := table.LinkWith(session.Caller{User: "oidc:ann"}, "https://muster.example.org", token.Credential())
	must(t, err)
	opened, err := table.Exchange(t.Context(), session.Exchange{Link: link.Reveal(), Origin: "https://muster.example.org", User: "oidc:ann"})
	must(t, err)
	return table, opened.Cookie.Reveal()
}

func grantOf(t *testing.T, table *session.Table, cookie string) session.Grant {
	t.Helper()
	g, err := table.Session(cookie, "https://muster.example.org")
	must(t, err)
	return g
}

// TestKeeper: a token is kept until it is about to expire, and renewed once for all requests.
func TestKeeper(t *testing.T) {
	s, file := newStage(t), session.File{Path: filepath.Join(t.TempDir(), "s.json")}
	table, cookie := s.open(t, file)
	keeper := NewKeeper(s.Provider)
	first, err := keeper.Token(t.Context(), grantOf(t, table, cookie))
	must(t, err)
	again, err := keeper.Token(t.Context(), grantOf(t, table, cookie))
	if err != nil || again.Raw != first.Raw || s.idp.Renewed() != 0 {
		t.Errorf("the second request: another token, %d renewals (%v)", s.idp.Renewed(), err)
	}
	s.shift.Store(int64(59*time.Minute + 30*time.Second))
	s.idp.Set(func(i *idp.Settings) { i.Skew = time.Hour })
	grant := grantOf(t, table, cookie)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if token, err := keeper.Token(t.Context(), grant); err != nil || token.Raw == first.Raw {
				t.Errorf("a renewal: %v", err)
			}
		})
	}
	wait.Wait()
	if s.idp.Renewed() != 1 {
		t.Errorf("%d renewals", s.idp.Renewed())
	}
	must(t, table.Flush(t.Context()))

	// Another process continues the session by the stored renewal, and no copy of the store does.
	table, err = session.Open(t.Context(), session.Options{Store: file})
	must(t, err)
	if _, err := NewKeeper(s.Provider).Token(t.Context(), grantOf(t, table, cookie)); err != nil || s.idp.Renewed() != 2 {
		t.Errorf("after a restart: %v", err)
	}
}

// TestKeeperEnds: what becomes of sessions when the provider is away, refuses, or answers with another user.
func TestKeeperEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		late   time.Duration
		change func(*idp.Settings)
		err    error
	}{
		{name: "away, the token counts still", late: 59*time.Minute + 30*time.Second, change: func(i *idp.Settings) { i.Away = true }},
		{name: "away", late: time.Hour, change: func(i *idp.Settings) { i.Away = true }, err: ErrAway},
		{name: "removed user", late: time.Hour, change: func(i *idp.Settings) { i.Refuse = true }, err: ErrEnded},
		{name: "removed user, the token counts still", late: 59*time.Minute + 30*time.Second, change: func(i *idp.Settings) { i.Refuse = true }, err: ErrEnded},
		{name: "another user", late: time.Hour, change: func(i *idp.Settings) { i.User, i.Skew = "eve", time.Hour }, err: ErrEnded},
		{name: "a token that has expired already", late: time.Hour, change: func(i *idp.Settings) { i.Life = -time.Hour }, err: ErrEnded},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			table, cookie := s.open(t, session.File{Path: filepath.Join(t.TempDir(), "s.json")})
			keeper := NewKeeper(s.Provider)
			_, err := keeper.Token(t.Context(), grantOf(t, table, cookie))
			must(t, err)
			s.shift.Store(int64(c.late))
			s.idp.Set(c.change)
			if _, err := keeper.Token(t.Context(), grantOf(t, table, cookie)); !errors.Is(err, c.err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestNoRefresh: without a refresh token a sign-in lasts as long as its token.
func TestNoRefresh(t *testing.T) {
	s := newStage(t)
	s.idp.Set(func(i *idp.Settings) { i.NoRefresh = true })
	table, cookie := s.open(t, session.File{Path: filepath.Join(t.TempDir(), "s.json")})
	keeper := NewKeeper(s.Provider)
	for _, c := range []struct {
		late time.Duration
		err  error
	}{{0, nil}, {59*time.Minute + 30*time.Second, nil}, {61 * time.Minute, ErrEnded}} {
		s.shift.Store(int64(c.late))
		if _, err := keeper.Token(t.Context(), grantOf(t, table, cookie)); !errors.Is(err, c.err) {
			t.Errorf("after %s: %v", c.late, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keeper.Token(ctx, grantOf(t, table, cookie)); err == nil {
		t.Error("a request that has ended gets a token")
	}
}
