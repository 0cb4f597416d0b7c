package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/muster-dev/muster/internal/account"
)

// Peer is the user at the other end of a connection.
type Peer struct {
	// UID and GID are the effective ones of the process that connected.
	UID, GID uint32
	// Groups are its supplementary groups.
	Groups []uint32
	// Session says that no process connected: a session of this server has the user. GID and Groups
	// are not known then.
	Session bool
}

// GIDs are all groups of the process, its effective one first, and none for a session.
func (p Peer) GIDs() []uint32 {
	if p.Session {
		return nil
	}
	return append([]uint32{p.GID}, p.Groups...)
}

// ErrNoPeer is the error for a connection that does not come from a [Listener].
var ErrNoPeer = errors.New("the connection does not come from the socket of Muster")

// ErrUnmapped is the error for a process whose uid has no number on this machine.
var ErrUnmapped = errors.New("the user of this process has no number on this machine, as in a user namespace without a mapping: run the command outside of it")

// ForeignError is the error for a socket that another user offers.
type ForeignError struct {
	Path string
	// UID is the user of the socket, or of the process that listens at it.
	UID uint32
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("the socket %s is of uid %d: the Muster of a machine is root's, so nothing is sent there", e.Path, e.UID)
}

// identified is a connection with the user at its other end.
type identified struct {
	net.Conn
	peer Peer
	err  error
}

type key struct{}

// Context adds the peer of a connection to a context. It is the ConnContext of an
// [http.Server] that serves a [Listener].
func Context(ctx context.Context, conn net.Conn) context.Context {
	if conn, okay := conn.(*identified); okay {
		return context.WithValue(ctx, key{}, conn)
	}
	return ctx
}

// FromContext returns the peer of a request. The error is [ErrNoPeer], [ErrUnmapped], or
// that of the kernel.
func FromContext(ctx context.Context) (Peer, error) {
	conn, okay := ctx.Value(key{}).(*identified)
	if !okay {
		return Peer{}, ErrNoPeer
	}
	return conn.peer, conn.err
}

// Accounts tells which users the machine has; *account.Directory is one.
type Accounts interface {
	ByUID(ctx context.Context, uid uint32) (account.Account, bool, error)
}

// Gate lets requests of users of the machine through.
type Gate struct {
	// Accounts tells which users there are. Required.
	Accounts Accounts
	// AllowUnknown lets users through whom Accounts does not know.
	AllowUnknown bool
	// Next serves the requests. Required.
	Next http.Handler
}

// ServeHTTP implements [http.Handler]. While the directory of users is away, the uid of
// the kernel is enough.
func (g Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := FromContext(r.Context())
	if err != nil {
		Refuse(w, http.StatusForbidden, err.Error())
		return
	}
	if !g.AllowUnknown {
		_, known, err := g.Accounts.ByUID(r.Context(), caller.UID)
		if err == nil && !known {
			Refuse(w, http.StatusForbidden, fmt.Sprintf("uid %[1]d is no user of this machine: `getent passwd %[1]d` has to print a line (for users of LDAP or SSSD, that service has to run)", caller.UID))
			return
		}
	}
	g.Next.ServeHTTP(w, r)
}

// reasons are the words of the API for the codes that are used here.
var reasons = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound",
	http.StatusMethodNotAllowed: "MethodNotAllowed", http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusTooManyRequests: "TooManyRequests", http.StatusInternalServerError: "InternalError", http.StatusServiceUnavailable: "ServiceUnavailable",
}

// RefusalHeader marks an answer that is not the API server's own, for clients that do not
// read its body.
const RefusalHeader = "X-Muster-Refusal"

// Refuse answers with an error in the form of the API server, which kubectl and Muster's
// commands show as a sentence.
func Refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(RefusalHeader, "true")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reasons[code], "code": code,
	})
}
