package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/key/issuer"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

const (
	// gatewayAtOnce is how many S3 requests one replica serves at once: each may hold
	// half a megabyte.
	gatewayAtOnce = 256
)

// front says where S3 clients reach data. Address "0": nowhere.
type front struct {
	address     string
	endpoint    string
	certificate string
	life        time.Duration
}

func (g *front) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&g.address, "gateway", "0", "address at which S3 clients reach data, by TLS, such as :6480 in a pod; 0 for none")
	flags.StringVar(&g.endpoint, "gateway-endpoint", "https://"+v1alpha1.GatewayName+"."+v1alpha1.SystemNamespace+".svc:6480",
		"what users are told to be the gateway's address; its host is one of those that the certificate is for")
	flags.StringVar(&g.certificate, "gateway-certificate", "", "Secret of the manager's namespace, of type kubernetes.io/tls, with the certificate that S3 clients are shown, for the host of --gateway-endpoint; default: one that the gateway's own authority signs")
	flags.DurationVar(&g.life, "gateway-key-life", 90*24*time.Hour, "for how long access keys of S3 clients are good at most")
}

func (g *front) on() bool { return g.address != "0" }

func (g *front) check(dataPlace, door string) error {
	at, err := url.Parse(g.endpoint)
	switch {
	case !g.on():
		return nil
	case dataPlace == "":
		return exit.Usage("--gateway %s: there is no data to serve: say where it is kept (--data-folder, --data-s3-endpoint, or where code is)", g.address)
	case door == "0":
		return exit.Usage("--gateway %s: keys are asked for at the door, and there is none: give --door, too", g.address)
	case err != nil || at.Scheme != "https" || at.Host == "" || strings.Trim(at.Path, "/") != "":
		return exit.Usage("--gateway-endpoint %s: give an address such as https://s3.example.com:6480", g.endpoint)
	case g.life < time.Minute:
		return exit.Usage("--gateway-key-life %s: give a minute or more", g.life)
	}
	return nil
}

// counter is the gateway of a replica: every one serves.
type counter struct {
	front
	api    client.Client
	stores *warehouse.Warehouse
	vault  *registry.Vault
	log    *slog.Logger
	// last is the chain that was given and is shown, of the goroutine that replaces it.
	last []byte
}

// openCounter makes it; nil where there is none.
func (o *options) openCounter(m upstream.Manager, stores *warehouse.Warehouse, log *slog.Logger) (*counter, error) {
	if !o.front.on() || stores == nil {
		return nil, nil //nolint:nilnil // none is no error
	}
	api, err := client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c := &counter{front: o.front, api: api, stores: stores, vault: &registry.Vault{Client: api, Namespace: v1alpha1.SystemNamespace}, log: log}
	if err := m.Add(c); err != nil {
		return nil, fmt.Errorf("adding the S3 gateway: %w", err)
	}
	return c, nil
}

// NeedLeaderElection says that every replica serves: what they share is in the stores.
func (*counter) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (c *counter) Start(ctx context.Context) error {
	shown := &gateway.Certificate{}
	if !c.begin(ctx, shown) {
		return nil
	}
	known := &registry.Registry{Client: c.api, Vault: c.vault, Measure: c.measure}
	g, err := gateway.New(gateway.Options{
		Stores: c.stores, Catalog: known, Keyring: known, Address: c.address, Certificate: shown, AtOnce: gatewayAtOnce, Log: c.log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		c.renew(ctx, shown)
		return nil
	})
	group.Go(func() error {
		return g.Serve(ctx, func(address string) { c.log.Info("S3 clients are served", "address", address, "as", c.endpoint) })
	})
	return group.Wait()
}

// measure says how large a commit is, which is in the store of its namespace.
func (c *counter) measure(ctx context.Context, namespace string, commit digest.ID) (dataset.Size, error) {
	store, err := c.stores.Store(ctx, namespace)
	if err != nil {
		return dataset.Size{}, err
	}
	found, err := store.Dataset(&ref.Memory{}).Resolve(ctx, commit.String())
	return dataset.Size{Files: found.Tree.Files, Bytes: found.Tree.Bytes}, err
}

// keys are the door's; none where there is no gateway.
func (c *counter) keys() door.Keys {
	if c == nil {
		return nil
	}
	return &issuer.Issuer{Vault: c.vault, Life: c.life, Place: "cluster", Endpoint: func() string { return c.endpoint }, Bundle: c.bundle}
}
