package passage

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

const (
	// idle is how long a connection of a user waits for the next request.
	idle = 30 * time.Second
	// idleOfUser and idleOfAll bound these connections.
	idleOfUser, idleOfAll = 8, 256
)

// MachineOptions are the parts of a [Machine]. All are required.
type MachineOptions struct {
	// Dial connects to the server behind the socket of the machine as a user, such as
	// [peer.Inside.Dial].
	Dial func(ctx context.Context, uid uint32) (net.Conn, error)
	// Accounts tells which users the machine has.
	Accounts peer.Accounts
	// Namespace returns the namespace of a user.
	Namespace func(uid uint32) string
}

// Machine passes the users of a machine on, each as themselves: by the server behind the machine's
// socket, which looks up the user's groups for each request and names both to the API server.
type Machine struct {
	o         MachineOptions
	transport *http.Transport
}

// NewMachine returns the passage of a machine. The caller closes it.
func NewMachine(o MachineOptions) *Machine {
	m := &Machine{o: o}
	m.transport = &http.Transport{DialContext: m.dial, IdleConnTimeout: idle, MaxIdleConnsPerHost: idleOfUser, MaxIdleConns: idleOfAll, DisableCompression: true}
	return m
}

// Close closes connections that wait for requests.
func (m *Machine) Close() { m.transport.CloseIdleConnections() }

// Of implements [web.Passage]. A user whom the directory does not know gets an error. While the
// directory gives no answer, the server decides about each request.
func (m *Machine) Of(ctx context.Context, caller session.Caller) (web.Way, error) {
	uid, ok := control.UIDOf(caller.User)
	if !ok {
		return web.Way{}, fmt.Errorf("%.60q has no credential here: this console is for the users of this machine", caller.User)
	}
	if err := m.Known(ctx, uid); err != nil {
		return web.Way{}, err
	}
	return web.Way{Server: &url.URL{Scheme: "http", Host: "muster"}, Transport: asUser{m.transport, uid}, Namespace: m.o.Namespace(uid)}, nil
}

// Known returns an error for a user whom the directory does not know.
func (m *Machine) Known(ctx context.Context, uid uint32) error {
	if _, known, err := m.o.Accounts.ByUID(ctx, uid); err == nil && !known {
		return &frontproxy.UnknownError{UID: uid}
	}
	return nil
}

// dial connects for a request of asUser, whose host is the user.
func (m *Machine) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(host, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no user: %w", host, err)
	}
	return m.o.Dial(ctx, uint32(uid))
}

// asUser sends requests as a user, whatever server they name. Connections are kept by host, so those of
// two users are never mixed.
type asUser struct {
	transport *http.Transport
	uid       uint32
}

// RoundTrip implements [http.RoundTripper].
func (a asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "http", strconv.FormatUint(uint64(a.uid), 10), "muster"
	return a.transport.RoundTrip(out)
}

var _ web.Passage = (*Machine)(nil)
