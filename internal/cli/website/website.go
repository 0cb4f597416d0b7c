package website

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/web"
)

// Default ports of the console. Only root can listen below 1024, so no other user takes the port of
// root's console while it is down.
const (
	DefaultPort     = 6490
	DefaultRootPort = 649
)

// again is the time after which a port that is taken is tried again.
const again = 5 * time.Second

// Folder is the folder of the console in a data folder.
func Folder(home string) string { return filepath.Join(home, "console") }

// Socket is the socket for commands in a data folder.
func Socket(home string) string { return filepath.Join(Folder(home), "control.sock") }

// Port returns the port of a configuration, or its default.
func Port(c configuration.Console) int {
	switch {
	case c.Port != 0:
		return c.Port
	case os.Geteuid() == 0:
		return DefaultRootPort
	}
	return DefaultPort
}

// Options are the parts of a console.
type Options struct {
	Home   string
	Config configuration.Console
	// REST is the credential of the user, for the API. Nil where there is a Machine.
	REST *rest.Config
	// Machine makes it the console of all users of the machine; nil: it is that of one user.
	Machine *Machine
	// Passed are sockets that systemd has opened.
	Passed []net.Listener
	// Name returns the login of a uid; nil means none.
	Name    func(ctx context.Context, uid uint32) string
	Version string
	// Say tells the user a sentence.
	Say func(format string, args ...any)
	Log *slog.Logger
}

// Console is the console of a Muster.
type Console struct {
	o       Options
	uid     uint32
	table   *session.Table
	answers web.Answers
	passage web.Passage
	proxies []netip.Prefix

	mu      sync.Mutex
	server  *web.Server
	trouble error // why there is no server
	port    int
}

var errOneUser = errors.New("this Muster has one user: leave --all out")

var errStarting = errors.New("the console is starting: try again in a moment")

// New reads the sessions. Nothing listens before [Console.Run].
func New(ctx context.Context, o Options) (*Console, error) {
	c := &Console{o: o, uid: uint32(os.Geteuid()), trouble: errStarting, port: Port(o.Config)} //nolint:gosec // a uid
	if err := makeFolder(o); err != nil {
		return nil, fmt.Errorf("making the folder of the console: %w", err)
	}
	var err error
	if c.table, err = session.Open(ctx, session.Options{Store: session.File{Path: filepath.Join(Folder(o.Home), "sessions.json")}, Limits: limitsOf(o.Machine), Scopes: web.Scopes()}); err != nil {
		return nil, err
	}
	if c.proxies, err = o.Config.ProxyPrefixes(); err != nil {
		return nil, err
	}
	if o.Machine != nil {
		c.answers, c.passage = machineAnswers{}, o.Machine.Passage
		return c, nil
	}
	if c.answers, err = newAnswers(o.REST); err != nil {
		return nil, err
	}
	c.passage, err = passage.NewOwn(o.REST, control.CallerOf(c.uid).User)
	return c, err
}

// makeFolder makes the folder of the console. Users pass through the data folder of a machine, and the
// folder has nothing for them there; that of one user is closed.
func makeFolder(o Options) error {
	folder := Folder(o.Home)
	if o.Machine == nil {
		return os.MkdirAll(folder, 0o755) //nolint:gosec // the data folder around it is closed
	}
	return errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o700)) //nolint:gosec // a folder
}

// Run serves the console until ctx ends, and, where there is one user, the socket for commands.
func (c *Console) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if c.o.Machine == nil {
		if err := c.serveCommands(ctx, group); err != nil {
			return err
		}
	} else {
		defer c.o.Machine.Passage.Close()
	}
	c.warn()
	group.Go(func() error {
		c.table.Run(ctx, func(err error) { c.o.Log.Warn("the sessions of the console", "error", err) })
		return nil
	})
	group.Go(func() error {
		c.serve(ctx)
		return nil
	})
	return group.Wait()
}

// serveCommands serves the socket for commands of the one user, by a group.
func (c *Console) serveCommands(ctx context.Context, group *errgroup.Group) error {
	socket, err := peer.Listen(ctx, Socket(c.o.Home))
	if err != nil {
		return err
	}
	own := &control.Server{Console: c.console, Port: c.Port, Caller: control.OnlyUser(c.uid),
		Administrator: func(*http.Request) error { return errOneUser }}
	commands := &http.Server{ConnContext: peer.Context, ReadHeaderTimeout: 10 * time.Second, Handler: own.Handler()}
	group.Go(func() error {
		if err := commands.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return errors.Join(commands.Close(), socket.Close())
	})
	return nil
}

// Port returns the port of the console.
func (c *Console) Port() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.port
}

func (c *Console) console() (control.Console, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble != nil {
		return nil, c.trouble
	}
	return c.server, nil
}

// became notes that the console is served, or why not. It says a new reason once.
func (c *Console) became(server *web.Server, port int, err error) {
	c.mu.Lock()
	last := c.trouble
	c.server, c.trouble = server, err
	if port != 0 {
		c.port = port
	}
	c.mu.Unlock()
	switch {
	case err == nil && last != nil && !errors.Is(last, errStarting):
		c.o.Say("the console is there now")
	case err != nil && (last == nil || last.Error() != err.Error()):
		c.o.Say("no console: %v", err)
	}
}

// serve serves the console, again and again while its port is taken.
func (c *Console) serve(ctx context.Context) {
	listeners := c.o.Passed
	for ctx.Err() == nil {
		var err error
		if len(listeners) == 0 {
			listeners, err = web.Listen(ctx, c.o.Config.Address, c.Port())
		}
		if err == nil {
			err = c.serveAt(ctx, listeners)
			listeners = nil
		}
		if _, taken := errors.AsType[*web.TakenError](err); taken {
			err = fmt.Errorf("%w: stop that program, or choose another port in config.yaml, such as console: {port: %d}; Muster tries again every %s", err, DefaultPort+10, again)
		}
		if ctx.Err() == nil {
			c.became(nil, 0, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// serveAt serves listeners until ctx ends or one of them fails.
func (c *Console) serveAt(ctx context.Context, listeners []net.Listener) (err error) {
	port := web.PortOf(listeners[0])
	certificate, server, err := c.make(ctx, port)
	if err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	c.became(server, port, nil)
	return server.Serve(ctx, certificate, listeners...)
}

func (c *Console) make(ctx context.Context, port int) (certificate *web.Certificate, _ *web.Server, err error) {
	if c.o.Config.Certificate != "" {
		if certificate, err = web.OpenCertificate(c.o.Config.Certificate, c.o.Config.Key, c.o.Log); err != nil {
			return nil, nil, err
		}
	}
	var external *url.URL
	if c.o.Config.URL != "" {
		if external, err = url.Parse(c.o.Config.URL); err != nil {
			return nil, nil, err
		}
	}
	o := web.Options{Table: c.table, Port: port, TLS: certificate != nil, External: external, Proxies: c.proxies,
		Passage: c.passage, Answers: c.answers, Name: c.name, Version: c.o.Version, Log: c.o.Log}
	if c.o.Machine != nil {
		o.Admit, o.UserConnections = c.o.Machine.admit, userConnections
	} else {
		o.Admit = web.Connections{Proxies: c.proxies, Owner: func(session.Caller) (uint32, bool) { return c.uid, true }}.Admit
	}
	server, err := web.New(ctx, o)
	return certificate, server, err
}

// name returns the login of a user.
func (c *Console) name(ctx context.Context, user string) string {
	uid, ok := control.UIDOf(user)
	if !ok || c.o.Name == nil {
		return user
	}
	if login := c.o.Name(ctx, uid); login != "" {
		return login
	}
	return user
}
