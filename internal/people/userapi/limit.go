package userapi

import (
	"context"
	"net"

	"github.com/muster-dev/muster/internal/people/connlimit"
	"github.com/muster-dev/muster/internal/people/peer"
)

// excess is the number of connections of a user beyond the limit that get an answer. Further ones are closed
// at once.
const excess = 16

// userOf returns the user of a connection. The gate refuses those without one; all of them count as one.
func userOf(conn net.Conn) (uint32, bool) {
	from, _ := peer.FromContext(peer.Context(context.Background(), conn))
	return from.UID, true
}

type fullKey struct{}

// connContext is the ConnContext of the server.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	c := conn.(*connlimit.Conn)
	return peer.Context(context.WithValue(ctx, fullKey{}, c.Excess), c.Conn)
}

// full reports whether a request came by a connection beyond the limit.
func full(ctx context.Context) bool {
	is, _ := ctx.Value(fullKey{}).(bool)
	return is
}
