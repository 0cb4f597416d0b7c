package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/web"
)

const (
	// consoleAgain is the pause before a console that has failed is served again.
	consoleAgain = 5 * time.Second
	// consoleSecret is the Secret with its sessions.
	consoleSecret = "muster-console-sessions" //nolint:gosec // a name
)

// pages says how the console is served. An empty file: it is not.
type pages struct {
	file        string
	read        configuration.Console
	authorities *x509.CertPool
}

func (p *pages) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.file, "console", "", "file with the fields of console in config.yaml, and oidc: the leader serves the pages for people (default: no pages)")
}

func (p *pages) check() (err error) {
	if p.file == "" {
		return nil
	}
	if p.read, err = configuration.LoadConsole(p.file); err != nil {
		return exit.Usage("--console: %v", err)
	}
	return nil
}

// addConsole adds the console to the manager.
func (o *options) addConsole(m upstream.Manager, log *slog.Logger) error {
	if o.console.file == "" {
		return nil
	}
	api, err := client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	c := &console{pages: o.console, api: api, rest: m.GetConfig(), version: o.factory.Version, pod: os.Getenv("POD_IP"), log: log, say: o.say}
	if err := m.Add(c); err != nil {
		return fmt.Errorf("adding the console: %w", err)
	}
	return nil
}

// console is that of the replica that leads: links, tokens and the table of sessions belong to one process.
type console struct {
	pages
	api     client.Client
	rest    *rest.Config
	version string
	pod     string // the address of this pod; empty: this is no pod
	log     *slog.Logger
	say     func(format string, args ...any)
}

// NeedLeaderElection says that the leader alone serves.
func (*console) NeedLeaderElection() bool { return true }

// Start serves until ctx ends. Jobs need no console, so its errors do not end the manager.
func (c *console) Start(ctx context.Context) error {
	last := ""
	for ctx.Err() == nil {
		last = c.report(ctx, last, c.serve(ctx))
	}
	return nil
}

// report says why the console has ended, unless it has said so last, and waits before it is served again.
// After a write of another process the sessions are read again at once. It returns what was said last.
func (c *console) report(ctx context.Context, last string, err error) string {
	if ctx.Err() != nil {
		return last
	}
	if err != nil && err.Error() != last {
		last = err.Error()
		c.say("no console: %s; it is tried again", last)
	}
	if errors.Is(err, website.ErrOtherWriter) {
		return ""
	}
	pause(ctx, consoleAgain)
	return last
}

// serve reads the sessions and serves until ctx ends, a listener fails, or another process writes the
// sessions.
func (c *console) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	store := &website.SecretStore{API: c.api, At: client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: consoleSecret}, Lost: cancel}
	site, err := website.NewCluster(ctx, website.ClusterOptions{Config: c.read, REST: c.rest, Store: store, Authorities: c.authorities, Version: c.version, Log: c.log})
	if err != nil {
		return err
	}
	listeners, err := web.Listen(ctx, c.read.Address, c.read.Port)
	if err != nil {
		return err
	}
	if err := c.publish(ctx); err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	c.say("the console is served at %s", listeners[0].Addr())
	err = site.Serve(ctx, listeners...)
	if cause := context.Cause(ctx); errors.Is(cause, website.ErrOtherWriter) {
		return cause
	}
	return err
}

// publish tells the Service where the leader is. At a loopback address no other pod reaches the console, so
// there is no Service.
func (c *console) publish(ctx context.Context) error {
	address, err := netip.ParseAddr(c.read.Address)
	if err != nil || address.IsLoopback() || c.pod == "" {
		return nil //nolint:nilerr // an empty address is loopback
	}
	if net.ParseIP(c.pod) == nil {
		return fmt.Errorf("POD_IP=%q is no address", c.pod)
	}
	return website.Publish(ctx, c.api, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: website.ServiceName}, c.pod, c.read.Port)
}
