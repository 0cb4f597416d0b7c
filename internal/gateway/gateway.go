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

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// Region is what the gateway says that it is in.
const Region = "us-east-1"

// DefaultPort is where the gateway listens unless it is told otherwise.
const DefaultPort = 6480

// connections is how many clients are served at once.
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

// Options say what a gateway serves. Store, Catalog, Keyring and Staging are
// required.
type Options struct {
	Store   *data.Store
	Catalog Catalog
	Keyring Keyring
	// Staging is a folder for uploads, which outlive a restart.
	Staging string
	// Port is where it listens on the loopback address. 0: on [DefaultPort] if that is
	// free, else on any.
	Port int
	// Gather is for how long a change waits for others that are likely to come.
	// Default: 8 ms.
	Gather time.Duration
	// Log hears of what clients are not told. Default: nobody.
	Log *slog.Logger
}

// Gateway serves datasets to S3 clients on the loopback address.
type Gateway struct {
	backend.BackendUnsupported
	store    *data.Store
	catalog  Catalog
	keyring  Keyring
	uploads  *uploads
	port     int
	patience time.Duration
	log      *slog.Logger

	// life ends when nothing is served any more; work is who still writes then.
	life   context.Context
	work   sync.WaitGroup
	leases leases

	mu     sync.Mutex
	places map[placeName]*place
	lanes  map[laneName]*lane
	views  map[digest.ID]*data.View
}

var _ backend.Backend = (*Gateway)(nil)

// New makes a gateway, which serves once [Gateway.Serve] is called.
func New(o Options) (*Gateway, error) {
	if o.Store == nil || o.Catalog == nil || o.Keyring == nil || o.Staging == "" {
		return nil, errors.New("making an S3 gateway: it needs a store, a catalogue, a keyring and a folder for uploads")
	}
	up, err := openUploads(o.Staging)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		store: o.Store, catalog: o.Catalog, keyring: o.Keyring, uploads: up, port: o.Port, patience: o.Gather, log: o.Log,
		places: map[placeName]*place{}, lanes: map[laneName]*lane{}, views: map[digest.ID]*data.View{},
	}
	if g.patience == 0 {
		g.patience = 8 * time.Millisecond
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return g, nil
}

// Serve listens and serves until ctx ends. Once it listens, ready is told where: as
// http://127.0.0.1:PORT.
func (g *Gateway) Serve(ctx context.Context, ready func(address string)) error {
	g.life = ctx
	g.leases = leases{store: g.store}
	defer func() {
		g.work.Wait()
		g.leases.close(context.WithoutCancel(ctx))
	}()
	for {
		port, err := g.choose(ctx)
		if err != nil {
			return err
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listening := false
		server, err := g.server(func() { listening = true; ready("http://" + address) })
		if err != nil {
			return err
		}
		err = g.serveUntil(ctx, server, address)
		if ctx.Err() != nil || listening || g.port != 0 {
			return err
		}
		// Somebody took the port between choosing it and listening: another one.
	}
}

// choose finds a port that is free.
func (g *Gateway) choose(ctx context.Context) (int, error) {
	wanted := []int{DefaultPort, 0}
	if g.port != 0 {
		wanted = []int{g.port}
	}
	var failed error
	for _, port := range wanted {
		found, err := free(ctx, port)
		if err == nil {
			return found, nil
		}
		failed = err
	}
	return 0, fmt.Errorf("listening for S3 clients: %w: choose another port with s3: {port: ...} in config.yaml", failed)
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
	server, err := s3api.New(g, nobody, Region, accounts{g}, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(), s3api.WithMpMaxParts(maxParts),
		s3api.WithConcurrencyLimiter(connections, connections), s3api.WithOnListen(listening), s3api.WithMiddleware("/", drain))
	if err != nil {
		return nil, fmt.Errorf("making the S3 server: %w", err)
	}
	return server, nil
}

func (g *Gateway) serveUntil(ctx context.Context, server *s3api.S3ApiServer, address string) error {
	ended := make(chan error, 1)
	go func() { ended <- server.ServeMultiPort([]string{address}) }()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("serving S3 clients on %s: %w", address, err)
		case <-sweep.C:
			g.leases.rest(ctx, time.Now())
			if err := g.uploads.sweep(time.Now()); err != nil {
				g.log.Warn("removing uploads that nobody completed", "err", err)
			}
		case <-ctx.Done():
			if err := server.ShutDown(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("stopping the S3 server: %w", err)
			}
			if err := <-ended; err != nil {
				g.log.Debug("the S3 server ended", "err", err) // its listener is closed
			}
			return nil
		}
	}
}

// String implements [backend.Backend].
func (g *Gateway) String() string { return "Muster" }
