package peer

import (
	"context"
	"net"
	"sync"
)

// Inside is a listener without an address, for requests that this process makes for its users.
type Inside struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// NewInside returns a listener. A server closes it.
func NewInside() *Inside {
	return &Inside{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects as a user whose session this process has checked. Requests of the connection have the
// peer of that user, with [Peer.Session] set.
func (l *Inside) Dial(ctx context.Context, uid uint32) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accepted <- &identified{Conn: far, peer: Peer{UID: uid, Session: true}}:
		return near, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements [net.Listener].
func (l *Inside) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Inside) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*Inside) Addr() net.Addr { return inside{} }

type inside struct{}

// Network implements [net.Addr].
func (inside) Network() string { return "inside" }

// String implements [net.Addr].
func (inside) String() string { return "inside" }
