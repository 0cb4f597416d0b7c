package website

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin"
	"github.com/muster-dev/muster/internal/people/web"
)

// ClusterOptions are the parts of the console of a cluster's manager.
type ClusterOptions struct {
	// Config is complete ([configuration.LoadConsole]).
	Config configuration.Console
	// REST is the manager's own connection.
	REST *rest.Config
	// Store keeps the table of sessions. Only one process at a time uses it.
	Store session.Store
	// Authorities check the certificate of the provider; nil means those of the system.
	Authorities *x509.CertPool
	Version     string
	Log         *slog.Logger
	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Cluster is the console of a cluster's manager.
type Cluster struct {
	o           ClusterOptions
	table       *session.Table
	ways        *passage.Cluster
	server      *web.Server
	certificate *web.Certificate
}

// NewCluster reads the sessions and makes the server. Nothing listens before [Cluster.Serve].
func NewCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	c := &Cluster{o: o}
	var err error
	if c.table, err = session.Open(ctx, session.Options{Store: o.Store, Scopes: web.Scopes(), Now: o.Now}); err != nil {
		return nil, err
	}
	if o.Config.Certificate != "" {
		if c.certificate, err = web.OpenCertificate(o.Config.Certificate, o.Config.Key, o.Log); err != nil {
			return nil, err
		}
	}
	w := web.Options{Table: c.table, Port: o.Config.Port, TLS: c.certificate != nil, Version: o.Version, Log: o.Log}
	if o.Config.URL != "" {
		if w.External, err = url.Parse(o.Config.URL); err != nil {
			return nil, err
		}
	}
	if w.Proxies, err = o.Config.ProxyPrefixes(); err != nil {
		return nil, err
	}
	if w.Answers, err = newAnswers(o.REST); err != nil {
		return nil, err
	}
	provider, err := c.provider()
	if err != nil {
		return nil, err
	}
	oidc := o.Config.OIDC
	c.ways, err = passage.NewCluster(passage.Options{REST: o.REST, Tokens: &tokens{table: c.table, keeper: signin.NewKeeper(provider), log: o.Log},
		Names: passage.Names{Issuer: oidc.Issuer, User: oidc.UsernameClaim, UserPrefix: oidc.UsernamePrefix, Groups: oidc.GroupsClaim, GroupsPrefix: oidc.GroupsPrefix},
		Now:   o.Now, Impersonate: oidc.Impersonate, Groups: oidc.ImpersonateGroups})
	if err != nil {
		return nil, err
	}
	w.Passage, w.SignIn = c.ways, &entry{provider: provider, ways: c.ways}
	c.server, err = web.New(ctx, w)
	return c, err
}

// base is the address of the console for browsers.
func (c *Cluster) base() string {
	if c.o.Config.URL != "" {
		return c.o.Config.URL
	}
	return "http://localhost:" + strconv.Itoa(c.o.Config.Port)
}

func (c *Cluster) provider() (*signin.Provider, error) {
	oidc := c.o.Config.OIDC
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.o.Authorities}
	o := signin.Options{Issuer: oidc.Issuer, ClientID: oidc.ClientID, Redirect: c.base() + web.CallbackPath, Scopes: oidc.Scopes,
		Client: &http.Client{Transport: transport, Timeout: patience}, Now: c.o.Now}
	if oidc.ClientSecretFile != "" {
		o.Secret = func() (string, error) {
			text, err := os.ReadFile(oidc.ClientSecretFile)
			return string(bytes.TrimSpace(text)), err
		}
		if _, err := o.Secret(); err != nil {
			return nil, fmt.Errorf("console: oidc: clientSecretFile: %w", err)
		}
	}
	return signin.New(o)
}

// Serve serves listeners until ctx ends or one of them fails, and closes them.
func (c *Cluster) Serve(ctx context.Context, listeners ...net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		c.table.Run(ctx, func(err error) { c.o.Log.Warn("the sessions of the console", "error", err) })
		return nil
	})
	group.Go(func() error { return c.server.Serve(ctx, c.certificate, listeners...) })
	return group.Wait()
}

// entry signs people in.
type entry struct {
	provider *signin.Provider
	ways     *passage.Cluster
}

// Begin implements [web.SignIn].
func (e *entry) Begin(ctx context.Context) (address, cookie string, err error) {
	address, cookie, err = e.provider.Begin(ctx)
	return address, cookie, signInProblem(err)
}

// Finish implements [web.SignIn].
func (e *entry) Finish(ctx context.Context, cookie string, query url.Values) (session.Caller, session.Credential, error) {
	token, err := e.provider.Finish(ctx, cookie, query)
	if err != nil {
		return session.Caller{}, session.Credential{}, signInProblem(err)
	}
	caller, err := e.ways.Identify(ctx, token)
	return caller, token.Credential(), signInProblem(err)
}

// signInProblem gives an error of a sign-in the status for the page.
func signInProblem(err error) error {
	if _, known := errors.AsType[*web.Problem](err); known || err == nil {
		return err
	}
	status := http.StatusForbidden
	switch {
	case errors.Is(err, signin.ErrAway):
		status = http.StatusServiceUnavailable
	case errors.Is(err, signin.ErrEnded):
		status = http.StatusUnauthorized
	}
	return &web.Problem{Status: status, Err: err}
}

// tokens ends a session whose token the provider does not renew.
type tokens struct {
	table  *session.Table
	keeper *signin.Keeper
	log    *slog.Logger
}

// Token implements [passage.Tokens].
func (t *tokens) Token(ctx context.Context, grant session.Grant) (signin.Token, error) {
	token, err := t.keeper.Token(ctx, grant)
	if errors.Is(err, signin.ErrEnded) {
		t.log.InfoContext(ctx, "a session of the console ends", "user", grant.Caller.User, "because", err)
		if ended := t.table.Revoke(context.WithoutCancel(ctx), grant.Caller.User, grant.ID); ended != nil && !errors.Is(ended, session.ErrUnknown) {
			t.log.WarnContext(ctx, "the end of a session was not stored", "error", ended)
		}
	}
	return token, signInProblem(err)
}
