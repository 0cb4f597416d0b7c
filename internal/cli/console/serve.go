package console

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/web"
)

// serve serves the pages of a cluster on this machine, until ctx ends.
func (o *options) serve(ctx context.Context) error {
	config, err := o.factory.RESTConfig()
	if err != nil {
		return err
	}
	port := o.port
	if port == 0 {
		port = website.DefaultPort
	}
	listeners, err := web.Listen(ctx, "", port)
	if _, taken := errors.AsType[*web.TakenError](err); taken && o.port == 0 {
		listeners, err = web.Listen(ctx, "", 0)
	}
	if err != nil {
		return fmt.Errorf("--port %d: %w", port, err)
	}
	return website.ServeLaptop(ctx, config, o.factory.Version, listeners, func(link control.Link) error {
		if err := o.show(ctx, link); err != nil {
			return err
		}
		_, err := fmt.Fprintln(o.factory.Streams.Err, "muster: the pages are served with your kubeconfig until ^C")
		return err
	}, func() error { return exit.With(exit.Interrupted, nil) })
}
