package web

import (
	"context"
	"net"
	"sync"

	"github.com/muster-dev/muster/internal/people/loopback"
)

// limit bounds the connections of each user of the machine, so that one user cannot take those of others.
type limit struct {
	most int

	mu   sync.Mutex
	open map[uint32]int
}

// over returns a listener whose connections are counted. It closes those that are too many. Connections
// from other machines have no user and are not counted.
func (l *limit) over(listener net.Listener) net.Listener { return &limited{listener, l} }

func (l *limit) take(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid] >= l.most {
		return false
	}
	l.open[uid]++
	return true
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
		uid, known := userOf(conn)
		if !known {
			return conn, nil
		}
		if l.limit.take(uid) {
			return &counted{Conn: conn, give: sync.OnceFunc(func() { l.limit.give(uid) })}, nil
		}
		_ = conn.Close()
	}
}

// userOf returns the user of a connection of this machine. Requests with a session are refused where it is
// not known.
func userOf(conn net.Conn) (uint32, bool) {
	uid, err := loopback.UID(loopback.Context(context.Background(), conn))
	return uid, err == nil
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	give func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	c.give()
	return c.Conn.Close()
}
