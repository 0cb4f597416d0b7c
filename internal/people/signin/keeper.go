package signin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/muster-dev/muster/internal/people/session"
)

// early is the time before its expiry at which a token is renewed.
const early = time.Minute

// Keeper keeps the newest token of each session.
type Keeper struct {
	provider *Provider
	flight   singleflight.Group

	mu     sync.Mutex
	tokens map[string]Token // by session
}

// NewKeeper returns a keeper without tokens.
func NewKeeper(p *Provider) *Keeper { return &Keeper{provider: p, tokens: map[string]Token{}} }

// Credential is what a session keeps of a token.
func (t Token) Credential() session.Credential {
	return session.Credential{Current: t.Raw, Renewal: t.Renewal}
}

// Token returns the token of a session, which counts for a while. An error of the kind [ErrEnded] means
// that the user signs in again.
func (k *Keeper) Token(ctx context.Context, grant session.Grant) (Token, error) {
	now := k.provider.o.Now()
	k.mu.Lock()
	token, ok := k.tokens[grant.ID]
	k.mu.Unlock()
	if ok && now.Before(token.Expires.Add(-early)) {
		return token, nil
	}
	// One renewal at a time: many providers accept a refresh token once. It goes on if the request that
	// began it ends, so that its answer is not lost.
	made := k.flight.DoChan(grant.ID, func() (any, error) { return k.renew(context.WithoutCancel(ctx), grant) })
	select {
	case <-ctx.Done():
		return Token{}, ctx.Err()
	case answer := <-made:
		if answer.Err != nil {
			return Token{}, answer.Err
		}
		return answer.Val.(Token), nil //nolint:forcetypeassert // renew returns a Token
	}
}

// renew returns the current token of a session if it counts long enough, else a new one.
func (k *Keeper) renew(ctx context.Context, grant session.Grant) (Token, error) {
	now := k.provider.o.Now()
	k.mu.Lock()
	former := k.tokens[grant.ID]
	k.mu.Unlock()
	have := grant.Credential()
	if former.Raw == "" && have.Current != "" { // the first request of a session
		token, err := k.provider.Check(ctx, have.Current, have.Renewal)
		if err == nil {
			former = token
		} else if !errors.Is(err, ErrEnded) {
			return Token{}, err
		}
	}
	if former.Raw != "" && now.Before(former.Expires.Add(-early)) {
		k.keep(grant, former)
		return former, nil
	}
	counts := former.Raw != "" && now.Before(former.Expires)
	if have.Renewal == "" {
		if counts {
			return former, nil
		}
		return Token{}, fmt.Errorf("%w: the provider gave no refresh token (scope offline_access), so a sign-in lasts as long as its token", ErrEnded)
	}
	token, err := k.provider.Renew(ctx, have.Renewal, former.Subject)
	switch {
	case err != nil && counts && !errors.Is(err, ErrEnded): // the provider is away
		return former, nil
	case err != nil:
		return Token{}, err
	}
	if token.Renewal == "" {
		token.Renewal = have.Renewal
	}
	k.keep(grant, token)
	grant.Renew(token.Credential())
	return token, nil
}

// keep keeps a token until its session ends.
func (k *Keeper) keep(grant session.Grant, token Token) {
	k.mu.Lock()
	_, known := k.tokens[grant.ID]
	k.tokens[grant.ID] = token
	k.mu.Unlock()
	if !known {
		grant.AfterEnd(func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.tokens, grant.ID)
		})
	}
}
