package up

import (
	"context"
	"net"

	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/web"
)

// takeSockets takes the sockets of systemd, before any child process is started.
func (m *machine) takeSockets() (err error) {
	m.sockets, err = web.Passed()
	return err
}

// runConsole serves the console until ctx ends. Jobs need no console, so its errors do not end Muster.
func (m *machine) runConsole(ctx context.Context) error {
	if m.config.Console.Disabled || m.shared { // its answers have the rights of root's own kubeconfig
		closeAll(m.sockets)
		return nil
	}
	console, err := website.New(ctx, website.Options{
		Home: string(m.home), Config: m.config.Console, REST: m.plane.RESTConfig(), Passed: m.sockets, Name: m.users.NameWithin,
		Version: m.version, Say: m.say, Log: m.log,
	})
	if err == nil {
		err = console.Run(ctx)
	} else {
		closeAll(m.sockets)
	}
	if err != nil && ctx.Err() == nil {
		m.say("no console: %v", err)
	}
	return nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}
