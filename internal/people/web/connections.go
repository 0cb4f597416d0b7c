package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/muster-dev/muster/internal/people/loopback"
	"github.com/muster-dev/muster/internal/people/session"
)

// Connections compares the user of a connection with the caller of a request.
type Connections struct {
	// Proxies are reverse proxies, whose connections have another user.
	Proxies []netip.Prefix
	// Owner returns the uid of a caller; for a program with a token of its own the caller is empty.
	Owner func(session.Caller) (uint32, bool)
}

// Admit refuses a request from this machine by a connection of another user than the caller. Root is no
// other user, since it can read the memory of all. A connection from another machine passes: the kernel
// here does not know its user.
func (c Connections) Admit(r *http.Request, caller session.Caller) error {
	if c.proxied(r.RemoteAddr) {
		return nil
	}
	uid, err := loopback.UID(r.Context())
	switch {
	case errors.Is(err, loopback.ErrRemote), errors.Is(err, loopback.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case uid == 0:
		return nil
	}
	owner, known := c.Owner(caller)
	if !known || owner != uid {
		return fmt.Errorf("the connection comes from uid %d of this machine", uid)
	}
	return nil
}

func (c Connections) proxied(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(c.Proxies, func(n netip.Prefix) bool { return n.Contains(at.Addr().Unmap()) })
}

// userOf returns the user of a connection of this machine; those from other machines have none. Requests with
// a session are refused where the user is not known.
func userOf(conn net.Conn) (uint32, bool) {
	uid, err := loopback.UID(loopback.Context(context.Background(), conn))
	return uid, err == nil
}
