package website

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/userapi"
	"github.com/muster-dev/muster/internal/people/web"
)

// memory is a store that ends with its process.
type memory struct{}

// Load implements [session.Store].
func (memory) Load(context.Context) ([]byte, error) { return nil, nil }

// Save implements [session.Store].
func (memory) Save(context.Context, []byte) error { return nil }

// ServeLaptop serves the console with the credential of a configuration until ctx ends. It passes a
// link to show, and returns the result of ended once ctx has ended.
func ServeLaptop(ctx context.Context, config *rest.Config, version string, listeners []net.Listener, show func(control.Link) error, ended func() error) error {
	uid := os.Geteuid() // -1 on Windows, where connections have no users
	caller := control.CallerOf(uint32(max(uid, 0)))
	table, err := session.Open(ctx, session.Options{Store: memory{}, Scopes: web.Scopes()})
	if err != nil {
		return err
	}
	read, err := newAnswers(config)
	if err != nil {
		return err
	}
	way, err := passage.NewOwn(config, caller.User)
	if err != nil {
		return err
	}
	connections := web.Connections{Owner: func(session.Caller) (uint32, bool) { return uint32(max(uid, 0)), true }}
	server, err := web.New(ctx, web.Options{Table: table, Port: web.PortOf(listeners[0]), Passage: way, Answers: read, Admit: connections.Admit, Version: version})
	if err != nil {
		return err
	}
	url, err := server.Link(ctx, caller, 0)
	if err != nil {
		return err
	}
	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(serving, nil, listeners...) })
	group.Go(func() error {
		return show(control.Link{URL: url, Port: web.PortOf(listeners[0]), User: caller.User, Expires: time.Now().Add(table.LinkLife())})
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return ended()
}

// Explain says why the console that a command means did not answer.
func Explain(f *connection.Factory, err error) error {
	refused, answered := errors.AsType[*control.RefusedError](err)
	if answered {
		return exit.With(exit.Failure, refused)
	}
	if kind, unknown := f.Kind(); unknown == nil && kind == connection.Box {
		return f.ExplainSocket(err)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return exit.NotFound("no console: Muster is not running, or its console is turned off; `muster up --detach` starts Muster, and console: {disabled: false} in config.yaml turns it on")
	}
	return fmt.Errorf("asking the running Muster: %w", err)
}

// Client returns a client of the console of the Muster that a command means.
func Client(f *connection.Factory) (*control.Client, error) {
	kind, err := f.Kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case connection.Box:
		return control.NewClient(f.SocketPath(), userapi.ConsolePath), nil
	case connection.Cluster:
		return nil, exit.With(exit.Failure, errors.New("the console of a cluster is `muster console` on your machine, and its sessions end with it: only a Muster of one machine keeps sessions and tokens"))
	}
	home, _, err := f.EmbeddedHome()
	return control.NewClient(Socket(home), ""), err
}
