package passage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin"
	"github.com/muster-dev/muster/internal/people/web"
)

// again is the time after which the API server is asked again whether it trusts tokens, or lets the manager
// impersonate.
const again = time.Minute

// Tokens returns the token of a session, such as [signin.Keeper].
type Tokens interface {
	Token(ctx context.Context, grant session.Grant) (signin.Token, error)
}

// Options are the parts of a [Cluster].
type Options struct {
	// REST is the manager's own connection. Its credential is used to ask for rights, to impersonate, and
	// for reads that were reviewed; never for a write in its own name.
	REST *rest.Config
	// Tokens returns the tokens of sessions.
	Tokens Tokens
	// Names says what the users of tokens are called.
	Names Names
	// Impersonate lets the manager impersonate users where the API server constrains that.
	Impersonate bool
	// Groups are the only groups that are impersonated.
	Groups []string
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Cluster passes people on to the API server of a cluster, who have signed in with a token.
type Cluster struct {
	o      Options
	server *url.URL
	// nobody connects without a credential, manager with the manager's.
	nobody, manager http.RoundTripper
	// trusts is set once the API server has known a token of the provider. From then on it refuses the user
	// of a token that it does not know, for example by a rule about users, and the manager acts for no such
	// user.
	trusts atomic.Bool

	mu    sync.Mutex
	found map[string]found // by session
}

// kind is how a caller's requests are made.
type kind int

const (
	trusted      kind = iota + 1 // with the caller's token
	impersonated                 // by constrained impersonation
	reviewed                     // reads only, each after a SubjectAccessReview
)

// found is what the API server said about one token.
type found struct {
	token [sha256.Size]byte
	kind  kind
	why   string // a kind is not better
	until time.Time
}

// NewCluster returns the passages of a cluster.
func NewCluster(o Options) (*Cluster, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cluster{o: o, found: map[string]found{}}
	var err error
	if c.server, _, err = rest.DefaultServerUrlFor(o.REST); err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	if c.nobody, err = rest.TransportFor(rest.AnonymousClientConfig(o.REST)); err != nil {
		return nil, fmt.Errorf("connecting to the API server without a credential: %w", err)
	}
	if c.manager, err = rest.TransportFor(o.REST); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return c, nil
}

// Identify returns the caller of a token that was just issued: as the API server calls them if it trusts
// the token, else as the claims say.
func (c *Cluster) Identify(ctx context.Context, token signin.Token) (session.Caller, error) {
	who, err := c.ask(ctx, token)
	switch {
	case err == nil:
		return session.Caller{User: who.User}, nil
	case !errors.Is(err, errUnknown):
		return session.Caller{}, err
	}
	return c.o.Names.of(token)
}

// ask asks the API server whose token it is.
func (c *Cluster) ask(ctx context.Context, token signin.Token) (web.Identity, error) {
	who, err := c.bearer(token).whoami(ctx)
	switch {
	case err == nil:
		c.trusts.Store(true)
	case errors.Is(err, errUnknown) && c.trusts.Load():
		return who, errors.New("the API server trusts this provider, and refuses your token: an administrator looks into the log of the API server")
	}
	return who, err
}

// Of implements [web.Passage]. The context is that of a request with a session.
func (c *Cluster) Of(ctx context.Context, caller session.Caller) (web.Way, error) {
	grant, ok := gate.Of(ctx)
	if !ok || grant.Kind != session.KindSession || grant.Caller.User != caller.User {
		return web.Way{}, errors.New("a token of Muster carries no credential for the cluster: sign in by a browser")
	}
	token, err := c.o.Tokens.Token(ctx, grant)
	if err != nil {
		return web.Way{}, err
	}
	f, err := c.find(ctx, grant, token)
	if err != nil {
		return web.Way{}, err
	}
	switch f.kind {
	case trusted:
		return web.Way{Server: c.server, Transport: c.bearer(token)}, nil
	case impersonated:
		who, err := c.o.Names.of(token)
		return web.Way{Server: c.server, Transport: c.impersonator(who)}, err
	}
	who, err := c.o.Names.of(token)
	if err != nil {
		return web.Way{}, err
	}
	return web.Way{Server: c.server, Transport: &reviewer{cluster: c, who: who}, ReadOnly: "you can only read here: " + f.why +
		". To change something, type the command with a kubeconfig of yours: `muster run`, `muster delete` or `kubectl`"}, nil
}

// find returns what the API server says about a token. It asks once for each token, and again each minute
// while it does not trust the token.
func (c *Cluster) find(ctx context.Context, grant session.Grant, token signin.Token) (found, error) {
	sum, now := sha256.Sum256([]byte(token.Raw)), c.o.Now()
	c.mu.Lock()
	f, known := c.found[grant.ID]
	c.mu.Unlock()
	if known && f.token == sum && now.Before(f.until) {
		return f, nil
	}
	f, err := c.probe(ctx, grant.Caller.User, token)
	if err != nil {
		return f, err
	}
	f.token, f.until = sum, now.Add(again)
	if f.kind == trusted {
		f.until = token.Expires
	}
	c.mu.Lock()
	c.found[grant.ID] = f
	c.mu.Unlock()
	if !known {
		grant.AfterEnd(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.found, grant.ID)
		})
	}
	return f, nil
}

// probe asks the API server: does it trust the token, and does it let the manager impersonate the user?
// Each answer has to name the user of the session.
func (c *Cluster) probe(ctx context.Context, user string, token signin.Token) (found, error) {
	who, err := c.ask(ctx, token)
	switch {
	case err == nil && who.User != user:
		return found{}, otherUser(user, who.User)
	case err == nil:
		return found{kind: trusted}, nil
	case !errors.Is(err, errUnknown):
		return found{}, err
	}
	claimed, err := c.o.Names.of(token)
	if err != nil {
		return found{}, err
	}
	if claimed.User != user {
		return found{}, otherUser(user, claimed.User)
	}
	why := fmt.Sprintf("the API server does not trust tokens of %s", c.o.Names.Issuer)
	if !c.o.Impersonate {
		return found{kind: reviewed, why: why}, nil
	}
	not, err := c.constrained(ctx, claimed)
	if err != nil {
		return found{}, err
	}
	if not != "" {
		return found{kind: reviewed, why: why + ", and " + not}, nil
	}
	return found{kind: impersonated}, nil
}

func otherUser(user, now string) error {
	return fmt.Errorf("this session is of %.60s, and its token is of %.60s now: sign out, and sign in again", user, now)
}

var _ web.Passage = (*Cluster)(nil)
