package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Errors of a connection whose user is not known.
var (
	// ErrRemote means that the connection comes from another machine or network namespace.
	ErrRemote = errors.New("the connection comes from another machine")
	// ErrUnsupported means that this system does not tell the users of connections.
	ErrUnsupported = errors.New("only Linux tells the user of a connection")
	errGone        = errors.New("the process has closed its end of the connection")
	errHidden      = errors.New("the kernel does not list the other end of the connection")
)

// connection finds its user once, when it is asked for: the user of a socket does not change.
type connection struct {
	client, server netip.AddrPort
	once           sync.Once
	uid            uint32
	err            error
}

type key struct{}

// Context adds a connection to a context. It is the ConnContext of an [http.Server].
func Context(ctx context.Context, conn net.Conn) context.Context {
	client, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	server, failed := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || failed != nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, &connection{client: plain(client), server: plain(server)})
}

// UID returns the user at the other end of a request's connection.
func UID(ctx context.Context) (uint32, error) {
	c, ok := ctx.Value(key{}).(*connection)
	if !ok {
		return 0, errors.New("the request does not come by a TCP connection")
	}
	c.once.Do(func() { c.uid, c.err = find(c.client, c.server) })
	if c.err != nil {
		return 0, fmt.Errorf("finding the user of the connection from %s: %w", c.client, c.err)
	}
	return c.uid, nil
}

// plain returns an address without its zone, and an IPv4 address in an IPv6 one as IPv4.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
