package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Life is the time that a user has at the provider.
const Life = 10 * time.Minute

// mostUsed bounds the states that are kept. Each takes a callback with a cookie of this process.
const mostUsed = 1 << 16

// attempt is a sign-in that has begun.
type attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Begun    int64  `json:"b"` // seconds
}

// seal returns the value of a cookie that only this process can read or make.
func (p *Provider) seal(a attempt) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, p.box.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(p.box.Seal(nonce, nonce, text, nil)), nil
}

func (p *Provider) open(cookie string) (a attempt, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(sealed) < p.box.NonceSize() {
		return a, fmt.Errorf("%w: this browser did not begin it, or Muster has started again: sign in again", ErrRefused)
	}
	text, err := p.box.Open(nil, sealed[:p.box.NonceSize()], sealed[p.box.NonceSize():], nil)
	if err != nil {
		return a, fmt.Errorf("%w: this browser did not begin it, or Muster has started again: sign in again", ErrRefused)
	}
	return a, json.Unmarshal(text, &a)
}

// take returns the attempt to which a callback belongs, and uses up its state.
func (p *Provider) take(cookie string, query url.Values) (attempt, error) {
	a, err := p.open(cookie)
	if err != nil {
		return a, err
	}
	now := p.o.Now()
	age := now.Sub(time.Unix(a.Begun, 0))
	states := query["state"]
	switch {
	case len(states) != 1 || subtle.ConstantTimeCompare([]byte(states[0]), []byte(a.State)) != 1:
		return a, fmt.Errorf("%w: its state is of another browser or of an older sign-in: sign in again", ErrRefused)
	case age >= Life || age < -time.Minute:
		return a, fmt.Errorf("%w: it took longer than %s: sign in again", ErrRefused, Life)
	}
	if err := p.use(a.State, now); err != nil {
		return a, err
	}
	switch issuers := query["iss"]; {
	case len(issuers) > 1 || len(issuers) == 1 && issuers[0] != p.o.Issuer: // RFC 9207
		return a, fmt.Errorf("%w: the answer is of another provider", ErrRefused)
	case query.Has("error"):
		return a, fmt.Errorf("%w: the provider answers %q %s", ErrRefused, printable(query.Get("error")), printable(query.Get("error_description")))
	case len(query["code"]) != 1 || query.Get("code") == "":
		return a, fmt.Errorf("%w: the answer of the provider has no code", ErrRefused)
	}
	return a, nil
}

// use lets a state count once.
func (p *Provider) use(state string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.used[state]; again {
		return fmt.Errorf("%w: it was used before: sign in again", ErrRefused)
	}
	if len(p.used) >= mostUsed {
		for s, at := range p.used {
			if now.Sub(at) >= Life+time.Minute {
				delete(p.used, s)
			}
		}
	}
	if len(p.used) >= mostUsed {
		return fmt.Errorf("%w: too many people sign in at this moment", ErrAway)
	}
	p.used[state] = now
	return nil
}

// printable returns a short text without control characters.
func printable(text string) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, text)
	return text[:min(len(text), 200)]
}
