package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind tells sessions of browsers from tokens of programs.
type Kind string

// The kinds of entries.
const (
	KindSession Kind = "session"
	KindToken   Kind = "token"
)

// Errors of a secret that opens nothing. An answer to a caller does not tell them apart.
var (
	ErrUnknown = errors.New("the secret is unknown, used, revoked, or of another origin")
	ErrExpired = errors.New("the secret has expired")
	// ErrClock means that an entry is from the future, so its age is not known.
	ErrClock = errors.New("the clock of this machine was set back")
	// ErrFull means that a user has as many tokens, or the table as many entries, as allowed.
	ErrFull = errors.New("the table of sessions is full")
)

// Caller is the user of a session or token.
type Caller struct {
	User string `json:"user"`
	// Groups are those that only the sign-in told, such as groups of OIDC. Groups of the machine
	// are looked up for each request, since a user can lose them.
	Groups []string `json:"groups,omitempty"`
}

// Entry is a session or token as lists show it. It holds no secret.
type Entry struct {
	ID     string `json:"id"`
	Kind   Kind   `json:"kind"`
	Caller Caller `json:"caller"`
	// Origin is the only origin at which a session counts. Tokens have none.
	Origin string `json:"origin,omitempty"`
	// Name is the user's name for a token, or the browser of a session.
	Name string `json:"name,omitempty"`
	// Scopes are what a token may be used for. A session has none, and is not limited by them.
	Scopes  []string  `json:"scopes,omitempty"`
	Created time.Time `json:"created"`
	// Seen is the time of the last request. After a crash it may be a minute early.
	Seen    time.Time `json:"seen"`
	Expires time.Time `json:"expires"`
}

// Limits bounds the table. Zero values mean the defaults of [DefaultLimits].
type Limits struct {
	// Session and Idle are the longest life of a session, and the longest time without a request.
	Session, Idle time.Duration
	// Link is the life of a link.
	Link time.Duration
	// Token is the longest life of a token.
	Token time.Duration
	// Sessions and Tokens bound the entries of one user, and Total those of all users. The user's
	// session that was used least recently makes room for a new one.
	Sessions, Tokens, Total int
	// Bytes bounds the stored table.
	Bytes int
}

// DefaultLimits returns the limits of a table without other limits.
func DefaultLimits() Limits {
	return Limits{Session: 24 * time.Hour, Idle: 8 * time.Hour, Link: time.Minute, Token: 366 * 24 * time.Hour,
		Sessions: 16, Tokens: 64, Total: 2000, Bytes: tableBytes}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	return Limits{Session: cmp.Or(l.Session, d.Session), Idle: cmp.Or(l.Idle, d.Idle), Link: cmp.Or(l.Link, d.Link),
		Token: cmp.Or(l.Token, d.Token), Sessions: cmp.Or(l.Sessions, d.Sessions), Tokens: cmp.Or(l.Tokens, d.Tokens),
		Total: cmp.Or(l.Total, d.Total), Bytes: cmp.Or(l.Bytes, d.Bytes)}
}

const (
	// skew is the difference of clocks that is tolerated: an entry that is further in the future
	// does not count, since its age is unknown.
	skew = 5 * time.Minute
	// listed is the time for which lists still show a token that has expired.
	listed = 7 * 24 * time.Hour
	// touch is the time after which a later use of an entry is worth a write.
	touch = time.Minute
)

// Options are the parts of a table.
type Options struct {
	Store  Store
	Limits Limits
	// Scopes are the scopes that tokens may have.
	Scopes []string
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// record is an entry with the hashes of its secrets.
type record struct {
	Entry
	Sum digest `json:"sum"`
	Key digest `json:"key,omitzero"`
	// Sealed is the renewal of the credential, encrypted with a key of the cookie.
	Sealed []byte `json:"sealed,omitempty"`

	credential Credential
	saved      time.Time // Seen as the store has it
	done       context.Context
	end        context.CancelFunc
}

func (r *record) start() { r.done, r.end = context.WithCancel(context.Background()) }

// Table holds links, sessions and tokens. Its methods may be called concurrently.
type Table struct {
	store  Store
	limits Limits
	scopes []string
	clock  func() time.Time

	saving sync.Mutex // held while the store is written; taken before mu

	mu      sync.Mutex
	records map[string]*record
	links   map[string]*link
	dirty   bool
}

// Open reads the table from its store.
func Open(ctx context.Context, o Options) (*Table, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Table{store: o.Store, limits: o.Limits.withDefaults(), scopes: slices.Clone(o.Scopes), clock: o.Now,
		records: map[string]*record{}, links: map[string]*link{}}
	text, err := o.Store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading sessions: %w", err)
	}
	list, err := decode(text, t.limits.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading sessions: %w; remove the stored table, and all users sign in again", err)
	}
	for _, r := range list {
		r.start()
		r.saved = r.Seen
		t.records[r.ID] = r
	}
	return t, nil
}

// now returns the wall clock: a monotonic reading would not survive a restart, so no rule uses it.
func (t *Table) now() time.Time { return t.clock().Round(0).UTC() }

// live returns why an entry does not count at this time, or nil.
func (t *Table) live(e *Entry, now time.Time) error {
	latest := now.Add(skew)
	switch {
	case e.Created.After(latest), e.Seen.After(latest):
		return ErrClock
	case !now.Before(e.Expires):
		return ErrExpired
	case e.Kind == KindSession && now.Sub(e.Seen) >= t.limits.Idle:
		return ErrExpired
	}
	return nil
}

// Grant is an entry whose secret the caller has shown.
type Grant struct {
	Entry
	// Left is the time until the entry expires.
	Left   time.Duration
	key    digest
	done   context.Context
	table  *Table
	cookie string // of a session
}

// HasKey reports whether a text is the key of the session. A token has none.
func (g Grant) HasKey(text string) bool {
	return g.Kind == KindSession && g.key.equal(digestOf(text))
}

// AfterEnd calls f once the entry is revoked or removed. The returned function takes that back.
func (g Grant) AfterEnd(f func()) (stop func() bool) { return context.AfterFunc(g.done, f) }

// Session returns the session with this cookie at this origin.
func (t *Table) Session(cookie, origin string) (Grant, error) {
	return t.grant(KindSession, cookie, origin)
}

// Token returns the token with this secret.
func (t *Table) Token(secret string) (Grant, error) { return t.grant(KindToken, secret, "") }

func (t *Table) grant(kind Kind, text, origin string) (Grant, error) {
	id, ok := identify(kind, text)
	if !ok {
		return Grant{}, ErrUnknown
	}
	sum := digestOf(text)
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[id]
	if r == nil || !r.Sum.equal(sum) || r.Kind != kind || r.Origin != origin {
		return Grant{}, ErrUnknown
	}
	if err := t.live(&r.Entry, now); err != nil {
		return Grant{}, err
	}
	if now.After(r.Seen) {
		r.Seen = now
		t.dirty = t.dirty || r.Seen.Sub(r.saved) >= touch
	}
	g := Grant{Entry: r.copy(), Left: r.Expires.Sub(now), key: r.Key, done: r.done, table: t}
	if kind == KindSession {
		g.cookie = text
	}
	return g, nil
}

// List returns the entries of a user, or of all users for "", oldest first. It shows expired tokens
// for a week.
func (t *Table) List(user string) []Entry {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Entry
	for _, r := range t.records {
		if (user == "" || r.Caller.User == user) && (r.Kind == KindToken || t.live(&r.Entry, now) == nil) {
			list = append(list, r.copy())
		}
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func (r *record) copy() Entry {
	e := r.Entry
	e.Scopes, e.Caller.Groups = slices.Clone(e.Scopes), slices.Clone(e.Caller.Groups)
	return e
}

// Origins returns the origins at which a session counts, or a link of another user than this one.
func (t *Table) Origins(user string) map[string]bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	used := map[string]bool{}
	for _, r := range t.records {
		if r.Kind == KindSession && t.live(&r.Entry, now) == nil {
			used[r.Origin] = true
		}
	}
	for _, l := range t.links {
		if l.caller.User != user && !t.stale(l, now) {
			used[l.origin] = true
		}
	}
	return used
}

// Revoke ends the entry of a user with this ID; "" is any user. Requests that use it end too.
// After an error of the store the entry has ended, but a restart may bring it back.
func (t *Table) Revoke(ctx context.Context, user, id string) error {
	t.mu.Lock()
	r := t.records[id]
	if r == nil || user != "" && r.Caller.User != user {
		t.mu.Unlock()
		return fmt.Errorf("revoking %q: %w", id, ErrUnknown)
	}
	t.remove(r)
	t.mu.Unlock()
	return t.revoked(ctx)
}

// RevokeUser ends all links, sessions and tokens of a user.
func (t *Table) RevokeUser(ctx context.Context, user string) error {
	t.mu.Lock()
	for _, r := range t.records {
		if r.Caller.User == user {
			t.remove(r)
		}
	}
	for id, l := range t.links {
		if l.caller.User == user {
			delete(t.links, id)
		}
	}
	t.mu.Unlock()
	return t.revoked(ctx)
}

// RevokeOrigin ends all links and sessions at an origin, whose server is gone. It stores nothing if there
// are none.
func (t *Table) RevokeOrigin(ctx context.Context, origin string) error {
	t.mu.Lock()
	ended := false
	for _, r := range t.records {
		if r.Kind == KindSession && r.Origin == origin {
			t.remove(r)
			ended = true
		}
	}
	for id, l := range t.links {
		if l.origin == origin {
			delete(t.links, id)
		}
	}
	t.mu.Unlock()
	if !ended {
		return nil
	}
	return t.revoked(ctx)
}

func (t *Table) revoked(ctx context.Context) error {
	if err := t.save(ctx); err != nil {
		return fmt.Errorf("ended now, but a restart may bring it back: %w", err)
	}
	return nil
}

// remove ends a record. The caller holds mu.
func (t *Table) remove(r *record) {
	delete(t.records, r.ID)
	r.end()
	t.dirty = true
}
