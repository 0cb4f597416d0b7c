package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/muster-dev/muster/internal/people/connlimit"
	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/loopback"
	"github.com/muster-dev/muster/internal/people/session"
)

const (
	// mostConnections bounds the descriptors that callers without a session can hold, and
	// mostOfUsers those where each user of the machine has a bound.
	mostConnections, mostOfUsers = 512, 4096
	// closing is the time that requests have when the server ends.
	closing = 2 * time.Second
)

// Options are the parts of a server.
type Options struct {
	Table *session.Table
	// Port is the port of the console on this machine.
	Port int
	// TLS says that the server itself speaks TLS, so that http://localhost is not served.
	TLS bool
	// External is the address for browsers elsewhere, such as https://gpu.example.org/muster; nil if
	// there is none.
	External *url.URL
	// Proxies are the addresses of reverse proxies.
	Proxies []netip.Prefix
	Passage Passage
	Answers Answers
	// Admit refuses requests of connections that are not the caller's, such as [Connections.Admit]; nil
	// admits all.
	Admit func(*http.Request, session.Caller) error
	// UserConnections bounds the connections of each user of this machine; 0 means no bound.
	UserConnections int
	// SignIn signs people in at a provider; nil means that `muster console` alone makes sessions.
	SignIn SignIn
	// Name returns the name of a user for people.
	Name func(ctx context.Context, user string) string
	// Version is the program's.
	Version string
	// Refresh is the time between two answers of the watch; 0 means 3 s.
	Refresh time.Duration
	// Log gets errors; nil means none.
	Log *slog.Logger
}

// Server is the console at all of its origins.
type Server struct {
	o    Options
	gate *gate.Gate

	adding sync.Mutex // one change of the local ports at a time
	ports  []tunnel
}

// New returns a server. It serves nothing before [Server.Serve].
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == nil {
		o.Name = func(_ context.Context, user string) string { return user }
	}
	if o.Refresh == 0 {
		o.Refresh = 3 * time.Second
	}
	s := &Server{o: o, gate: gate.New(gate.Options{Table: o.Table, Proxies: o.Proxies, Log: o.Log, Name: o.Name, Advice: o.advice()})}
	if o.External != nil {
		if err := s.add(ctx, o.External.Scheme+"://"+o.External.Host, strings.TrimSuffix(o.External.Path, "/")); err != nil {
			return nil, err
		}
	}
	if o.TLS {
		if o.External == nil {
			return nil, errors.New("a server with a certificate needs its address for browsers, such as https://gpu.example.org:6490")
		}
		return s, nil
	}
	if err := s.add(ctx, localOrigin(o.Port), ""); err != nil {
		return nil, err
	}
	s.restore(ctx)
	return s, nil
}

func localOrigin(port int) string { return "http://localhost:" + strconv.Itoa(port) }

func (s *Server) add(ctx context.Context, origin, prefix string) error {
	routes := s.routes()
	if home, at := s.o.home(); s.o.SignIn != nil && home == origin {
		more, err := s.signInRoutes(home, at)
		if err != nil {
			return err
		}
		routes = append(routes, more...)
	}
	return s.gate.Add(ctx, gate.Site{Origin: origin, Prefix: prefix, Routes: routes, Admit: s.o.Admit})
}

// home returns the origin and the path prefix at which people sign in.
func (o *Options) home() (origin, prefix string) {
	if o.External != nil {
		return o.External.Scheme + "://" + o.External.Host, strings.TrimSuffix(o.External.Path, "/")
	}
	return localOrigin(o.Port), ""
}

// Link returns a link by which a caller signs in: at a local port for a tunnel, else at the external
// address, else at the server's own port.
func (s *Server) Link(ctx context.Context, caller session.Caller, port int) (string, error) {
	origin, prefix := s.o.home()
	switch {
	case port != 0 && s.o.TLS:
		return "", errors.New("this console has a certificate, so a tunnel does not serve it: open " + s.o.External.String())
	case port != 0:
		if err := s.serveAt(ctx, port, caller.User); err != nil {
			return "", err
		}
		origin, prefix = localOrigin(port), ""
	}
	secret, err := s.o.Table.Link(caller, origin)
	if err != nil {
		return "", err
	}
	return origin + prefix + gate.Entrance + "#" + secret.Reveal(), nil
}

// Table returns the table of sessions and tokens.
func (s *Server) Table() *session.Table { return s.o.Table }

// Serve serves listeners until ctx ends or one of them fails, and closes them. A certificate that is not
// nil is that of all of them.
func (s *Server) Serve(ctx context.Context, certificate *Certificate, listeners ...net.Listener) error {
	server := s.gate.Server()
	server.ConnContext = loopback.Context
	if certificate != nil {
		server.TLSConfig = certificate.config()
	}
	ended := make(chan error, len(listeners))
	users := connlimit.New(connlimit.Options{Most: s.o.UserConnections, User: userOf})
	for _, l := range listeners {
		most := mostConnections
		if s.o.UserConnections > 0 {
			l, most = users.Over(l), mostOfUsers
		}
		go func() {
			l := netutil.LimitListener(l, most)
			if certificate != nil {
				ended <- server.ServeTLS(l, "", "")
				return
			}
			ended <- server.Serve(l)
		}()
	}
	left := len(listeners)
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if stopped := server.Shutdown(last); stopped != nil { // streams end only with their connections
		_ = server.Close()
	}
	for range left {
		if other := <-ended; err == nil && !errors.Is(other, http.ErrServerClosed) {
			err = other
		}
	}
	return err
}
