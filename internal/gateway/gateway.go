package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
	"golang.org/x/sync/semaphore"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/gateway/upload"
	"github.com/muster-dev/muster/internal/turns"
)

// Region is what the gateway says that it is in.
const Region = "us-east-1"

// DefaultPort is where the gateway listens unless it is told otherwise.
const DefaultPort = 6480

// connections is how many clients are connected at once at most, and of these so many
// are served at once unless it is said how many.
const connections = 4096

// ErrNoDataset is wrapped by errors of heads whose dataset is not there.
var ErrNoDataset = errors.New("there is no such dataset")

// Catalog knows the datasets of a namespace.
type Catalog interface {
	// Datasets are all of a namespace, in the order of their names.
	Datasets(ctx context.Context, namespace string) ([]Dataset, error)
	// Heads are the branches and tags of one dataset. Where it is not there, their
	// errors wrap [ErrNoDataset].
	Heads(namespace, name string) ref.Heads
}

// Dataset is one dataset as listings have it.
type Dataset struct {
	Name string
	Made time.Time
}

// Options say what a gateway serves. Stores, Catalog and Keyring are required.
type Options struct {
	Stores  Stores
	Catalog Catalog
	Keyring Keyring
	// Port is where it listens on the loopback address. 0: on [DefaultPort] if that is
	// free, else on any.
	Port int
	// Address is where it listens instead, as host:port. Who reaches that from
	// elsewhere wants a certificate.
	Address string
	// Certificate is what it shows. Nil: no TLS.
	Certificate *Certificate
	// AtOnce is how many requests are served at once. More wait for their turn: first
	// comes who is of a namespace that has fewer, and who is slow in sending has to
	// make room. Default: 4096.
	AtOnce int
	// LongAtOnce is how many long files are put at once, and uploads completed: each
	// holds up to 230 MB, of packs on their way into the store. More wait in the same
	// way. Default: 4.
	LongAtOnce int
	// Patience is how long a request waits for its turn before it is told to come
	// again. Default: 20 s.
	Patience time.Duration
	// MessageTime is how long the body of a request may take to come that is no object's
	// content. Default: 20 s.
	MessageTime time.Duration
	// Gather is for how long a change waits at most for others that are likely to come;
	// where none comes for a sixth of it, it waits no longer. Default: 24 ms.
	Gather time.Duration
	// Log hears of what clients are not told. Default: nobody.
	Log *slog.Logger
}

// Gateway serves datasets to S3 clients.
type Gateway struct {
	backend.BackendUnsupported
	o Options

	// long is for long files that are being put, and short for all other requests.
	short, long *turns.Lane
	// bodies are those of short files that were put.
	bodies bodies
	// messages is the room for what is sent beside contents of objects.
	messages *semaphore.Weighted

	// life ends when nothing is served any more; work is who still writes then.
	life context.Context
	work sync.WaitGroup

	mu     sync.Mutex
	homes  map[string]*home
	places map[placeName]*place
	lanes  map[laneName]*lane
	views  map[viewName]*data.View
}

var _ backend.Backend = (*Gateway)(nil)

// New makes a gateway, which serves once [Gateway.Serve] is called.
func New(o Options) (*Gateway, error) {
	if o.Stores == nil || o.Catalog == nil || o.Keyring == nil {
		return nil, errors.New("making an S3 gateway: it needs stores, a catalogue and a keyring")
	}
	if o.AtOnce == 0 {
		o.AtOnce = connections
	}
	if o.LongAtOnce == 0 {
		o.LongAtOnce = 4
	}
	if o.Patience == 0 {
		o.Patience = 20 * time.Second
	}
	if o.MessageTime == 0 {
		o.MessageTime = messageTime
	}
	if o.Gather == 0 {
		o.Gather = 24 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Gateway{
		o: o, short: o.lane(o.AtOnce), long: o.lane(o.LongAtOnce), messages: semaphore.NewWeighted(messages),
		homes: map[string]*home{}, places: map[placeName]*place{}, lanes: map[laneName]*lane{}, views: map[viewName]*data.View{},
	}, nil
}

// lane gives out so many turns at once. One namespace waits for some times as many, and
// not for all that may be connected.
func (o *Options) lane(wide int) *turns.Lane {
	l := turns.New(wide, min(max(4*wide, 256), connections/2), time.Now)
	l.Rules.Patience = o.Patience
	return l
}

// Serve listens and serves until ctx ends. Once it listens, ready is told where: as
// http://127.0.0.1:PORT.
func (g *Gateway) Serve(ctx context.Context, ready func(address string)) error {
	life, end := context.WithCancel(ctx)
	g.life = life
	g.work.Go(func() { g.sweep(life) })
	defer func() {
		end() // where the server failed, too
		g.work.Wait()
		g.leave(context.WithoutCancel(ctx))
	}()
	for {
		address, err := g.choose(ctx)
		if err != nil {
			return err
		}
		listening := false
		server, err := g.server(func() { listening = true; ready(g.scheme() + "://" + address) })
		if err != nil {
			return err
		}
		err = g.serveUntil(ctx, server, address)
		if ctx.Err() != nil || listening || g.o.Port != 0 || g.o.Address != "" {
			return err
		}
		// Somebody took the port between choosing it and listening: another one.
	}
}

func (g *Gateway) scheme() string {
	if g.o.Certificate != nil {
		return "https"
	}
	return "http"
}

// choose finds where to listen.
func (g *Gateway) choose(ctx context.Context) (string, error) {
	if g.o.Address != "" {
		return g.o.Address, nil
	}
	wanted := []int{DefaultPort, 0}
	if g.o.Port != 0 {
		wanted = []int{g.o.Port}
	}
	var failed error
	for _, port := range wanted {
		found, err := free(ctx, port)
		if err == nil {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(found)), nil
		}
		failed = err
	}
	return "", fmt.Errorf("listening for S3 clients: %w: choose another port with s3: {port: ...} in config.yaml", failed)
}

// free is the port itself if nobody listens there, any that is free for 0.
func free(ctx context.Context, port int) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// server makes the S3 server. Its root account is nobody's: what a key opens, the
// gateway decides alone.
func (g *Gateway) server(listening func()) (*s3api.S3ApiServer, error) {
	nobody := middlewares.RootUserConfig{Access: rand.Text(), Secret: rand.Text()}
	options := []s3api.Option{
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(), s3api.WithMpMaxParts(upload.MaxParts),
		s3api.WithConcurrencyLimiter(connections, connections), s3api.WithOnListen(listening), s3api.WithMiddleware("/", g.receive),
	}
	if g.o.Certificate != nil {
		options = append(options, s3api.WithTLS(&g.o.Certificate.shown))
	}
	server, err := s3api.New(g, nobody, Region, accounts{g}, nil, nil, nil, nil, options...)
	if err != nil {
		return nil, fmt.Errorf("making the S3 server: %w", err)
	}
	return server, nil
}

func (g *Gateway) serveUntil(ctx context.Context, server *s3api.S3ApiServer, address string) error {
	ended := make(chan error, 1)
	go func() { ended <- server.ServeMultiPort([]string{address}) }()
	rest := time.NewTicker(restEvery)
	defer rest.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("serving S3 clients on %s: %w", address, err)
		case <-rest.C:
			g.rest(ctx, time.Now())
		case <-ctx.Done():
			if err := server.ShutDown(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("stopping the S3 server: %w", err)
			}
			if err := <-ended; err != nil {
				g.o.Log.Debug("the S3 server ended", "err", err) // its listener is closed
			}
			return nil
		}
	}
}

// String implements [backend.Backend].
func (g *Gateway) String() string { return "Muster" }
