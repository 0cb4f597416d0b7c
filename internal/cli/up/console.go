package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/web"
	"github.com/muster-dev/muster/internal/tenant"
)

// takeSockets takes the sockets of systemd, before any child process is started.
func (m *machine) takeSockets() (err error) {
	m.sockets, err = web.Passed()
	return err
}

// runConsole serves the console until ctx ends. Jobs need no console, so its errors do not end Muster.
func (m *machine) runConsole(ctx context.Context) error {
	if m.shared { // with the socket of the machine: see openDoor
		return nil
	}
	if m.config.Console.Disabled {
		closeAll(m.sockets)
		return nil
	}
	console, err := website.New(ctx, website.Options{
		Home: string(m.home), Config: m.config.Console, REST: m.plane.RESTConfig(), Passed: m.sockets, Name: m.users.NameWithin,
		Version: m.version, Say: m.say, Log: m.log,
	})
	if err != nil {
		closeAll(m.sockets)
		m.say("no console: %v", err)
		return nil
	}
	return m.serveConsole(ctx, console)
}

// serveConsole serves a console until ctx ends; nil is none.
func (m *machine) serveConsole(ctx context.Context, console *website.Console) error {
	if console == nil {
		return nil
	}
	if err := console.Run(ctx); err != nil && ctx.Err() == nil {
		m.say("no console: %v", err)
	}
	return nil
}

// consoleOfUsers makes the console of a Muster that several users share. Its requests come by inside. The
// handler answers commands; the console is nil where there is none.
func (m *machine) consoleOfUsers(ctx context.Context, inside *peer.Inside, administrator func(*http.Request) (bool, error)) (*website.Console, http.Handler) {
	if m.config.Console.Disabled {
		closeAll(m.sockets)
		return nil, m.without(errors.New("the console of this machine is turned off: an administrator turns it on by console: {disabled: false} in config.yaml"))
	}
	console, err := website.New(ctx, website.Options{
		Home: string(m.home), Config: m.config.Console, Passed: m.sockets, Name: m.users.NameWithin, Version: m.version, Say: m.say, Log: m.log,
		Machine: &website.Machine{
			Passage: passage.NewMachine(passage.MachineOptions{Dial: inside.Dial, Accounts: m.users,
				Namespace: func(uid uint32) string { return tenant.OfMachine(uid, "").Name }}),
			Administrator: administrator,
		},
	})
	if err != nil {
		closeAll(m.sockets)
		m.say("no console: %v", err)
		return nil, m.without(fmt.Errorf("this machine has no console: %w", err))
	}
	return console, console.Commands()
}

// without answers commands where there is no console.
func (m *machine) without(reason error) http.Handler {
	m.several.noConsole = reason
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, reason.Error(), http.StatusServiceUnavailable)
	})
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}
