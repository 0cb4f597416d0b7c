package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// startWithin is how long a start may take, programs already built: seconds,
// but for large images.
const startWithin = 5 * time.Minute

// Cluster is a running one. Its methods may be called at the same time; after
// Stop only Stop.
type Cluster struct {
	// Nodes in the order of the options.
	Nodes []*Node

	options   Options
	bin       string
	folder    *folder
	site      site
	control   *machine
	authority *authority
	config    *rest.Config
	client    kubernetes.Interface

	stop    sync.Once
	stopped error

	mu       sync.Mutex
	programs map[string]program
}

// program is how one is started, again if need be.
type program struct {
	on  *machine
	run wire.Run
}

// Start builds what is missing, starts a cluster and waits until its nodes are
// ready and pods can be created in the namespace default. It lasts until
// [Cluster.Stop], or until this process ends. Whatever a start that fails has
// begun is ended.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	bin, err := programs(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	folder, err := newFolder(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, bin: bin, folder: folder, programs: map[string]program{}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	begin := time.Now()
	say := func(what string) { c.options.Log("cluster: %s after %.1f s", what, time.Since(begin).Seconds()) }
	// 1. Machines, and the network between them.
	if err := c.boot(); err != nil {
		return err
	}
	// 2. Certificates: everybody is told the control plane's address by them.
	var err error
	if c.authority, err = newAuthority(c.path("pki")); err != nil {
		return err
	}
	if err := c.identities(); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	say("machines stand")
	// 3. The API server, and meanwhile the runtimes.
	images, err := c.writeImages(ctx)
	if err != nil {
		return err
	}
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startAPI(both) })
	for i, node := range c.Nodes {
		group.Go(func() error { return node.startRuntime(both, images[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	say("API server and runtimes are ready")
	// 4. What works through the API server.
	if err := c.startManagers(); err != nil {
		return err
	}
	for _, node := range c.Nodes {
		if err := node.startKubelet(); err != nil {
			return err
		}
	}
	if err := c.awaitAll(ctx); err != nil {
		return err
	}
	say("everything is ready")
	return nil
}

// boot starts the machines and links them.
func (c *Cluster) boot() error {
	if err := os.MkdirAll(c.path("logs"), 0o755); err != nil {
		return fmt.Errorf("making the folder of logs: %w", err)
	}
	control, err := boot(c.bin, c.LogFile("machine"), wire.Setup{Hostname: "control-plane", Tmpfs: []string{"/run"}})
	if err != nil {
		return err
	}
	c.control = control
	if err := c.folder.remember(control); err != nil {
		return err
	}
	if c.site, err = settle(control); err != nil {
		return err
	}
	for i, options := range c.options.Nodes {
		node := &Node{NodeOptions: options, number: i + 1, Address: c.site.node(i + 1), cluster: c}
		c.Nodes = append(c.Nodes, node)
		if err := node.boot(); err != nil {
			return err
		}
	}
	return c.site.join(control, c.Nodes)
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	// A test that is slowed down by its client measures the client.
	config.QPS = -1
	c.config = config
	c.client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// writeImages returns the files with the images of each node.
func (c *Cluster) writeImages(ctx context.Context) ([][]string, error) {
	if len(c.Nodes) == 0 {
		return nil, nil
	}
	busybox, err := Busybox(ctx)
	if err != nil {
		return nil, err
	}
	written := map[string]string{}
	files := make([][]string, len(c.Nodes))
	for i, node := range c.Nodes {
		for _, image := range append([]Image{pause(), busybox}, node.Images...) {
			if written[image.Name] == "" {
				if written[image.Name], err = image.cached(c.imageFolder()); err != nil {
					return nil, err
				}
			}
			files[i] = append(files[i], written[image.Name])
		}
	}
	return files, nil
}

// imageFolder is where images are kept between runs.
func (c *Cluster) imageFolder() string { return filepath.Join(filepath.Dir(c.bin), "images") }

// path is a path in the cluster's folder.
func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.folder.path}, elements...)...)
}

// Kubeconfig is a file with which a client is the cluster's administrator.
func (c *Cluster) Kubeconfig() string { return c.authority.file("admin.kubeconfig") }

// EtcdFolder is where etcd's files are: for a copy while etcd does not run, or to
// put one in their place.
func (c *Cluster) EtcdFolder() string { return c.path("etcd") }

// Config is a new configuration of the administrator, without a limit of
// requests.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client is the administrator's.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// HostAddress is this machine as the cluster's nodes and pods reach it, and
// nobody else: where a test listens that serves something to them.
func (c *Cluster) HostAddress() string { return c.site.host() }

// Node returns a node by its name, nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, node := range c.Nodes {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// Stop ends all programs and containers at once, without waiting for anything
// that they would do at their end, and removes everything that the cluster has
// made on this machine. A second call does nothing and returns the same.
func (c *Cluster) Stop() error {
	c.stop.Do(func() { c.stopped = c.end() })
	return c.stopped
}

func (c *Cluster) end() error {
	machines := []*machine{}
	for _, node := range c.Nodes {
		machines = append(machines, node.machine)
	}
	var failed []error
	for _, machine := range append(machines, c.control) {
		if machine != nil {
			failed = append(failed, machine.off())
		}
	}
	if c.site != 0 {
		failed = append(failed, c.site.unlink())
	}
	failed = append(failed, c.folder.remove(context.Background()))
	return errors.Join(failed...)
}
