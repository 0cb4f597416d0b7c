package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
	"github.com/muster-dev/muster/internal/node"
)

// s3 is the gateway of an embedded Muster; without one, it is turned off.
type s3 struct {
	gateway *gateway.Gateway
	data    func(ctx context.Context, namespace string) (*data.Store, error)
	// listens hears once where it serves, "" if it does not.
	listens chan string
}

// openGateway makes the S3 gateway over the stores in the home.
func (m *machine) openGateway() (*s3, error) {
	s := &s3{listens: make(chan string, 1)}
	if m.config.S3.Disabled {
		s.listens <- ""
		return s, nil
	}
	scheme, err := connection.Scheme()
	if err != nil {
		return nil, err
	}
	config := m.plane.ManagerConfig()
	config.QPS = -1 // bounded by the lanes: one change of a branch at a time
	server, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	s.data = m.kept.data
	known := &registry.Registry{Client: server, Measure: s.measure, Vault: m.kept.vault(server)}
	all, err := m.kept.objects()
	if err != nil {
		return nil, err
	}
	s.gateway, err = gateway.New(gateway.Options{
		Stores: all, Catalog: known, Keyring: known, Port: m.config.S3.Port, Log: m.log,
	})
	return s, err
}

// oldUploadsLast is how long folders of uploads are kept.
const oldUploadsLast = 7 * 24 * time.Hour

// dropFolders removes the uploads that former versions kept in a folder each, and in
// which nothing has happened for long: nobody reads those any more.
func dropFolders(uploads string, now time.Time) error {
	entries, err := os.ReadDir(uploads)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, failed := e.Info()
		if failed == nil && info.IsDir() && now.Sub(info.ModTime()) > oldUploadsLast {
			failed = os.RemoveAll(filepath.Join(uploads, e.Name()))
		}
		if !errors.Is(failed, fs.ErrNotExist) { // removed meanwhile
			err = errors.Join(err, failed)
		}
	}
	return err
}

// measure says how large a commit is, which the Dataset shows.
func (s *s3) measure(ctx context.Context, namespace string, id digest.ID) (dataset.Size, error) {
	store, err := s.data(ctx, namespace)
	if err != nil {
		return dataset.Size{}, err
	}
	c, err := store.Dataset(&ref.Memory{}).Resolve(ctx, id.String())
	return dataset.Size{Files: c.Tree.Files, Bytes: c.Tree.Bytes}, err
}

// podService is the Service by which pods reach the gateway, as on a cluster.
var podService = types.NamespacedName{Namespace: "muster-system", Name: "muster-gateway"}

// lead points the Service for pods at the gateway. In the plain tier pods reach it at the machine's
// own address.
func (m *machine) lead(n *node.Node) error {
	if m.network == nil || m.state.S3 == "" {
		return nil
	}
	address, err := url.Parse(m.state.S3)
	if err != nil {
		return fmt.Errorf("reading the S3 gateway's address: %w", err)
	}
	at, err := netip.ParseAddrPort(address.Host)
	if err != nil {
		return fmt.Errorf("reading the S3 gateway's address: %w", err)
	}
	n.Directory().Lead(podService, at)
	m.state.PodS3 = fmt.Sprintf("http://%s.%s.svc:%d", podService.Name, podService.Namespace, gateway.DefaultPort)
	return nil
}

// serve serves until ctx ends.
func (s *s3) serve(ctx context.Context) error {
	if s.gateway == nil {
		return nil
	}
	return s.gateway.Serve(ctx, func(address string) { s.listens <- address })
}
