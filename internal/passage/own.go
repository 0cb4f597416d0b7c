package passage

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

// Own passes one user on, with a kubeconfig of theirs.
type Own struct {
	user string
	way  web.Way
}

// NewOwn returns the passage of a user by the credential of a configuration.
func NewOwn(config *rest.Config, user string) (*Own, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the credential of the kubeconfig: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the server of the kubeconfig: %w", err)
	}
	return &Own{user: user, way: web.Way{Server: server, Transport: transport}}, nil
}

// Of implements [web.Passage].
func (o *Own) Of(_ context.Context, caller session.Caller) (web.Way, error) {
	if caller.User != o.user {
		return web.Way{}, fmt.Errorf("%.60s has no credential here: this console is of %s", caller.User, o.user)
	}
	return o.way, nil
}

var _ web.Passage = (*Own)(nil)
