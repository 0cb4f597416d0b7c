package userapi

import (
	"context"
	"net"
	"sync"

	"github.com/muster-dev/muster/internal/people/peer"
)

// excess is how many connections beyond the limit are told so, for each user. Further
// ones are closed at once.
const excess = 16

// limit bounds the connections of each user.
type limit struct {
	most int

	mu   sync.Mutex
	open map[uint32]int
}

// over returns a listener whose connections are counted.
func (l *limit) over(listener net.Listener) net.Listener { return &limited{listener, l} }

// take counts a connection of a user. It is told that it is one too many, or not even that.
func (l *limit) take(uid uint32) (full, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.open[uid]
	if n >= l.most+excess {
		return true, true
	}
	l.open[uid] = n + 1
	return n >= l.most, false
}

func (l *limit) give(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

type limited struct {
	net.Listener
	limit *limit
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// A connection without a user is refused by the gate; all of them count as one.
		from, _ := peer.FromContext(peer.Context(context.Background(), conn))
		full, refused := l.limit.take(from.UID)
		if refused {
			_ = conn.Close()
			continue
		}
		return &counted{Conn: conn, full: full, give: sync.OnceFunc(func() { l.limit.give(from.UID) })}, nil
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	full bool
	give func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	c.give()
	return c.Conn.Close()
}

type fullKey struct{}

// connContext is the ConnContext of the server.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	c := conn.(*counted)
	return peer.Context(context.WithValue(ctx, fullKey{}, c.full), c.Conn)
}

// full reports whether a request came by a connection beyond the limit.
func full(ctx context.Context) bool {
	is, _ := ctx.Value(fullKey{}).(bool)
	return is
}
