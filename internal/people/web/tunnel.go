package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/people/session"
)

const (
	// mostPorts bounds the local ports at which tunnels of one user serve the console.
	mostPorts = 32
	// mostTunnels bounds those of all users.
	mostTunnels = 512
)

// tunnel is a local port at which a tunnel serves the console. Tunnels of several users may have the same
// port, each on the user's own machine.
type tunnel struct {
	port int
	// user asked first.
	user string
}

// restore serves the local ports at which sessions count that a former process has opened.
func (s *Server) restore(ctx context.Context) {
	for _, e := range s.o.Table.List("") {
		rest, ok := strings.CutPrefix(e.Origin, "http://localhost:")
		port, err := strconv.Atoi(rest)
		if !ok || err != nil || e.Kind != session.KindSession || e.Origin != localOrigin(port) {
			continue
		}
		if err := s.serveAt(ctx, port, e.Caller.User); err != nil {
			s.o.Log.WarnContext(ctx, "the console is not served for a tunnel", "port", port, "error", err)
		}
	}
}

// serveAt serves the console at another local port, to which a tunnel of a user leads.
func (s *Server) serveAt(ctx context.Context, port int, user string) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d: allowed are 1 to 65535", port)
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	if s.gate.Has(localOrigin(port)) {
		return nil
	}
	if s.portsOf(user) >= mostPorts {
		if err := s.release(ctx, user); err != nil {
			return err
		}
	}
	if len(s.ports) >= mostTunnels {
		if err := s.release(ctx, ""); err != nil {
			return err
		}
	}
	switch own := s.portsOf(user); {
	case own >= mostPorts:
		return fmt.Errorf("port %d: your tunnels serve the console at %d ports already; revoke sessions that are not needed (`muster session list`)", port, own)
	case len(s.ports) >= mostTunnels:
		return fmt.Errorf("port %d: tunnels of all users serve the console at %d ports already; try again once some sessions have ended", port, len(s.ports))
	}
	if err := s.add(ctx, localOrigin(port), ""); err != nil {
		return err
	}
	s.ports = append(s.ports, tunnel{port, user})
	return nil
}

func (s *Server) portsOf(user string) (count int) {
	for _, t := range s.ports {
		if t.user == user {
			count++
		}
	}
	return count
}

// release stops serving ports of a user, or of all for "", that no session and no link of another user
// uses.
func (s *Server) release(ctx context.Context, user string) error {
	used := s.o.Table.Origins(user)
	var err error
	s.ports = slices.DeleteFunc(s.ports, func(t tunnel) bool {
		if user != "" && t.user != user || used[localOrigin(t.port)] {
			return false
		}
		err = errors.Join(err, s.gate.Remove(ctx, localOrigin(t.port)))
		return true
	})
	return err
}
