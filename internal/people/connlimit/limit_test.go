package connlimit_test

import (
	"errors"
	"net"
	"testing"

	"github.com/muster-dev/muster/internal/people/connlimit"
)

// queue is a listener whose connections are those of users, by number.
type queue struct {
	net.Listener
	uids []uint32
}

type conn struct {
	net.Conn
	uid    uint32
	closed bool
}

func (c *conn) Close() error { c.closed = true; return nil }

var errEmpty = errors.New("no connection is left")

func (q *queue) Accept() (net.Conn, error) {
	if len(q.uids) == 0 {
		return nil, errEmpty
	}
	c := &conn{uid: q.uids[0]}
	q.uids = q.uids[1:]
	return c, nil
}

// TestLimit: a user has two connections, a third one is marked, and a fourth is closed. Those of others and
// of no user are not affected. A closed connection, closed once or twice, counts once.
func TestLimit(t *testing.T) {
	const nobody = 99
	l := connlimit.New(connlimit.Options{Most: 2, Excess: 1, User: func(c net.Conn) (uint32, bool) {
		uid := c.(*conn).uid
		return uid, uid != nobody
	}})
	q := &queue{uids: []uint32{1, 1, 1, 1, 2, nobody, nobody, nobody, nobody}}
	listener := l.Over(q)
	var ones []*connlimit.Conn
	for _, want := range []bool{false, false, true} {
		c, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		one := c.(*connlimit.Conn)
		if one.Excess != want {
			t.Errorf("connection %d: beyond the limit is %t", len(ones)+1, one.Excess)
		}
		ones = append(ones, one)
	}
	if c, err := listener.Accept(); err != nil || c.(*connlimit.Conn).Conn.(*conn).uid != 2 {
		t.Fatalf("after the fourth of user 1: %+v, %v", c, err)
	}
	for range 4 {
		if c, err := listener.Accept(); err != nil || c.(*conn).uid != nobody {
			t.Errorf("of no user: %+v, %v", c, err)
		}
	}
	if err := errors.Join(ones[0].Close(), ones[0].Close()); err != nil || !ones[0].Conn.(*conn).closed {
		t.Errorf("closing: %v", err)
	}
	q.uids = []uint32{1, 1}
	if c, err := listener.Accept(); err != nil || !c.(*connlimit.Conn).Excess {
		t.Errorf("after one was closed: %+v, %v", c, err)
	}
	if _, err := listener.Accept(); !errors.Is(err, errEmpty) {
		t.Errorf("one too many: %v", err)
	}
}
