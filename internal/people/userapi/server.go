package userapi

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/muster-dev/muster/internal/people/connlimit"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 64 << 10
	// drain is the time that requests have to end after a stop. Watches and other streams
	// end at once.
	drain = 10 * time.Second
	// connections is the default for [Options.Connections].
	connections = 512
)

// Signer signs the certificate of a caller: a client certificate, PEM, of the authority
// that the API server trusts.
type Signer func(key crypto.PublicKey, user string, groups []string, life time.Duration) ([]byte, error)

// Options set up a [Server].
type Options struct {
	// Directory tells the users of the machine and their groups. Required.
	Directory frontproxy.Directory
	// AllowUnknown lets users in whom the directory does not know.
	AllowUnknown bool
	// API answers the paths of Kubernetes; a [frontproxy.Proxy]. Required.
	API http.Handler
	// Door answers the paths of the door. Nil: they are not found.
	Door http.Handler
	// Console answers the paths of the console for commands. Nil: they are not found.
	Console http.Handler
	// Sign makes credentials for Cluster. Nil: they are not found.
	Sign    Signer
	Cluster Cluster
	// Prepare makes what a user needs, such as the namespace. It is called before each
	// request, so it remembers what it made. Nil: nothing is made.
	Prepare func(ctx context.Context, caller peer.Peer) error
	// Connections is the highest number of connections of one user. Default: 512.
	Connections int
	// Log gets a line for each refusal. Default: none.
	Log *slog.Logger
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Server is the server behind the socket.
type Server struct {
	o       Options
	limit   *connlimit.Limit
	journal journal
	// stopping is closed once streams have to end.
	stopping chan struct{}
}

// New returns a server; [Server.Serve] starts it.
func New(o Options) (*Server, error) {
	if o.Directory == nil || o.API == nil {
		return nil, errors.New("the server of a machine's socket needs a directory of users, and a proxy of the API server")
	}
	o.Connections = cmp.Or(o.Connections, connections)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{
		o: o, limit: connlimit.New(connlimit.Options{Most: o.Connections, Excess: excess, User: userOf}),
		journal: journal{log: o.Log, now: o.Now}, stopping: make(chan struct{}),
	}, nil
}

// Serve answers by listeners of package peer until ctx ends or one of them fails, and closes
// them. It is called once. Streams end at once then; other requests have 10 seconds.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	server := &http.Server{
		Handler: s.handler(), ConnContext: connContext,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelInfo),
	}
	done := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { done <- server.Serve(s.limit.Over(l)) }()
	}
	left := len(listeners)
	var failed error
	select {
	case failed = <-done:
		left--
	case <-ctx.Done():
	}
	close(s.stopping)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		_ = server.Close()
	}
	for range left {
		if err := <-done; failed == nil && !errors.Is(err, http.ErrServerClosed) {
			failed = err
		}
	}
	if failed != nil {
		return fmt.Errorf("serving the socket of the machine: %w", failed)
	}
	return nil
}

// handler is the chain of a request: the journal, the limit of connections, the gate of
// package peer, the preparation of the user, the route.
func (s *Server) handler() http.Handler {
	gate := peer.Gate{Accounts: s.o.Directory, AllowUnknown: s.o.AllowUnknown, Next: prepared(s.o.Prepare, s.routes())}
	return s.journal.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if full(r.Context()) {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			peer.Refuse(w, http.StatusTooManyRequests, fmt.Sprintf("you have %d connections to Muster, as many as one user may have: end some of your commands", s.o.Connections))
			return
		}
		gate.ServeHTTP(w, r)
	}))
}
