package connlimit

import (
	"net"
	"sync"
)

// Limit counts the open connections of each user, at all listeners that it is over.
type Limit struct {
	o Options

	mu   sync.Mutex
	open map[uint32]int
}

// Options make a Limit.
type Options struct {
	// Most is the number of connections of one user.
	Most int
	// Excess is the number of further ones, which are accepted and marked ([Conn.Excess]), so that the
	// server can answer. Those beyond are closed. Default: 0.
	Excess int
	// User returns the user of a connection; false: the connection is not counted. Required.
	User func(net.Conn) (uid uint32, known bool)
}

// New returns a Limit.
func New(o Options) *Limit { return &Limit{o: o, open: map[uint32]int{}} }

// Over returns a listener whose connections are counted.
func (l *Limit) Over(listener net.Listener) net.Listener { return &limited{listener, l} }

// take counts a connection of a user, unless there are too many.
func (l *Limit) take(uid uint32) (excess, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.open[uid]
	if n >= l.o.Most+l.o.Excess {
		return false, false
	}
	l.open[uid] = n + 1
	return n >= l.o.Most, true
}

func (l *Limit) give(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

type limited struct {
	net.Listener
	limit *Limit
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, known := l.limit.o.User(conn)
		if !known {
			return conn, nil
		}
		if excess, ok := l.limit.take(uid); ok {
			return &Conn{Conn: conn, Excess: excess, give: sync.OnceFunc(func() { l.limit.give(uid) })}, nil
		}
		_ = conn.Close()
	}
}

// Conn is a connection that counts until it is closed.
type Conn struct {
	net.Conn
	// Excess is true for a connection beyond [Options.Most].
	Excess bool
	give   func()
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	c.give()
	return c.Conn.Close()
}
