package session

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	nameRunes  = 64
	userBytes  = 253
	groupCount = 256
	linkCount  = 16
)

var tokenName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// link is a secret that was not exchanged yet.
type link struct {
	id      string
	sum     digest
	caller  Caller
	origin  string
	created time.Time

	credential Credential
}

// Link returns a link for a caller to a session at one origin. It counts once, and for a minute.
func (t *Table) Link(caller Caller, origin string) (Secret, error) {
	return t.LinkWith(caller, origin, Credential{})
}

// LinkWith returns a link to a session that has a credential.
func (t *Table) LinkWith(caller Caller, origin string, credential Credential) (Secret, error) {
	if err := caller.check(); err != nil {
		return Secret{}, err
	}
	id, secret := newSecret(kindLink)
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var own []*link
	for id, l := range t.links {
		switch {
		case t.stale(l, now):
			delete(t.links, id)
		case l.caller.User == caller.User:
			own = append(own, l)
		}
	}
	if len(own) >= linkCount {
		oldest := slices.MinFunc(own, func(a, b *link) int { return a.created.Compare(b.created) })
		delete(t.links, oldest.id)
	}
	t.links[id] = &link{id: id, sum: digestOf(secret.text), caller: caller.copy(), origin: origin, created: now, credential: credential}
	return secret, nil
}

// LinkLife returns the life of a link.
func (t *Table) LinkLife() time.Duration { return t.limits.Link }

// stale reports whether a link has expired. A clock that was set back ends it too.
func (t *Table) stale(l *link, now time.Time) bool {
	return now.Before(l.created) || now.Sub(l.created) >= t.limits.Link
}

// LinkCaller returns the caller of a link and does not use it up, so that a page can name the caller
// before it signs in.
func (t *Table) LinkCaller(text, origin string) (Caller, error) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	l, err := t.find(text, origin, now)
	if err != nil {
		return Caller{}, err
	}
	return l.caller.copy(), nil
}

// find returns a link that counts. The caller holds mu.
func (t *Table) find(text, origin string, now time.Time) (*link, error) {
	id, ok := identify(kindLink, text)
	if !ok {
		return nil, ErrUnknown
	}
	l := t.links[id]
	switch {
	case l == nil || !l.sum.equal(digestOf(text)) || l.origin != origin:
		return nil, ErrUnknown
	case t.stale(l, now):
		delete(t.links, id)
		return nil, ErrExpired
	}
	return l, nil
}

// Exchange says which link becomes a session.
type Exchange struct {
	Link, Origin string
	// User is the user that the page named. Another user's link is not exchanged.
	User string
	// Browser is the name of the session in lists.
	Browser string
}

// Opened is a new session with both of its secrets.
type Opened struct {
	Entry
	Cookie, Key Secret
}

// Exchange uses up a link and returns a session. The link is used up even if the store fails.
func (t *Table) Exchange(ctx context.Context, x Exchange) (Opened, error) {
	now := t.now()
	t.mu.Lock()
	l, err := t.find(x.Link, x.Origin, now)
	if err == nil && l.caller.User != x.User {
		err = ErrUnknown
	}
	if err != nil {
		t.mu.Unlock()
		return Opened{}, err
	}
	delete(t.links, l.id)
	t.mu.Unlock()

	id, cookie := newSecret(KindSession)
	key := newKey()
	r := &record{Sum: digestOf(cookie.text), Key: digestOf(key.text), Entry: Entry{ID: id, Kind: KindSession, Caller: l.caller,
		Origin: x.Origin, Name: printable(x.Browser), Created: now, Seen: now, Expires: now.Add(t.limits.Session)}}
	r.credential, r.Sealed = l.credential, seal(l.credential.Renewal, cookie.text, id)
	if err := t.add(ctx, r, 0); err != nil {
		return Opened{}, err
	}
	t.evict(l.caller.User)
	return Opened{Entry: r.copy(), Cookie: cookie, Key: key}, nil
}

// evict ends sessions of a user, least recently used first, until the user has as many as allowed.
func (t *Table) evict(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var own []*record
	for _, r := range t.records {
		if r.Kind == KindSession && r.Caller.User == user {
			own = append(own, r)
		}
	}
	slices.SortFunc(own, func(a, b *record) int { return a.Seen.Compare(b.Seen) })
	for _, r := range own[:max(0, len(own)-t.limits.Sessions)] {
		t.remove(r)
	}
}

// TokenSpec describes a token to create.
type TokenSpec struct {
	Name     string
	Scopes   []string
	Lifetime time.Duration
}

// CreateToken returns a new token of a caller.
func (t *Table) CreateToken(ctx context.Context, caller Caller, spec TokenSpec) (Secret, Entry, error) {
	if err := errors.Join(caller.check(), t.checkToken(spec)); err != nil {
		return Secret{}, Entry{}, err
	}
	id, secret := newSecret(KindToken)
	now := t.now()
	scopes := slices.Compact(slices.Sorted(slices.Values(spec.Scopes)))
	r := &record{Sum: digestOf(secret.text), Entry: Entry{ID: id, Kind: KindToken, Caller: caller.copy(), Name: spec.Name,
		Scopes: scopes, Created: now, Seen: now, Expires: now.Add(spec.Lifetime)}}
	if err := t.add(ctx, r, t.limits.Tokens); err != nil {
		return Secret{}, Entry{}, err
	}
	return secret, r.copy(), nil
}

func (t *Table) checkToken(spec TokenSpec) error {
	if !tokenName.MatchString(spec.Name) {
		return fmt.Errorf("token name %q: a name has 1 to 63 of the characters a-z, 0-9, - and ., such as nightly-sweep", spec.Name)
	}
	if spec.Lifetime <= 0 || spec.Lifetime > t.limits.Token {
		return fmt.Errorf("token lifetime %s: a token lives for more than 0 and at most %s", spec.Lifetime, t.limits.Token)
	}
	if len(spec.Scopes) == 0 {
		return fmt.Errorf("a token without scopes opens nothing: give some of %s", strings.Join(t.scopes, ", "))
	}
	for _, s := range spec.Scopes {
		if !slices.Contains(t.scopes, s) {
			return fmt.Errorf("token scope %q: the scopes are %s", s, strings.Join(t.scopes, ", "))
		}
	}
	return nil
}

// add puts a record into the table and stores it. A user has at most own tokens, and no two of them
// with the same name.
func (t *Table) add(ctx context.Context, r *record, own int) error {
	r.start()
	if err := t.insert(r, own); err != nil {
		return err
	}
	if err := t.save(ctx); err != nil {
		t.mu.Lock()
		t.remove(r)
		t.mu.Unlock()
		return err
	}
	return nil
}

func (t *Table) insert(r *record, own int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(t.now())
	if len(t.records) >= t.limits.Total {
		return fmt.Errorf("%w: it has %d entries; revoke some", ErrFull, len(t.records))
	}
	if r.Kind == KindToken {
		count := 0
		for _, other := range t.records {
			if other.Kind != KindToken || other.Caller.User != r.Caller.User {
				continue
			}
			if other.Name == r.Name {
				return fmt.Errorf("token name %q: you have a token with this name, %s; revoke it or choose another name", r.Name, other.ID)
			}
			count++
		}
		if count >= own {
			return fmt.Errorf("%w: you have %d tokens, and at most %d are allowed; revoke some", ErrFull, count, own)
		}
	}
	t.records[r.ID] = r
	t.dirty = true
	return nil
}

func (c Caller) copy() Caller { return Caller{User: c.User, Groups: slices.Clone(c.Groups)} }

func (c Caller) check() error {
	if c.User == "" || len(c.User) > userBytes || strings.ContainsFunc(c.User, unprintable) {
		return fmt.Errorf("caller %q: a caller has 1 to %d printable bytes", c.User, userBytes)
	}
	if len(c.Groups) > groupCount {
		return fmt.Errorf("caller %q: %d groups are given, and at most %d are allowed", c.User, len(c.Groups), groupCount)
	}
	for _, g := range c.Groups {
		if len(g) > userBytes {
			return fmt.Errorf("caller %q: a group of %d bytes is given, and at most %d are allowed", c.User, len(g), userBytes)
		}
	}
	return nil
}

func unprintable(c rune) bool { return !unicode.IsPrint(c) }

// printable returns a text of at most 64 characters without control characters.
func printable(text string) string {
	var out []rune
	for _, c := range text {
		if len(out) == nameRunes {
			break
		}
		if !unprintable(c) {
			out = append(out, c)
		}
	}
	return string(out)
}
