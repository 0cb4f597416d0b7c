package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/up/gallery"
	"github.com/muster-dev/muster/internal/cli/up/outfitter"
	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/dataset/reading"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/node"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/guard"
	"github.com/muster-dev/muster/internal/node/image"
	"github.com/muster-dev/muster/internal/node/limits"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/shim"
	"github.com/muster-dev/muster/internal/systemd"
)

// stopTimeout bounds an orderly stop.
const stopTimeout = 30 * time.Second

// machine is one embedded Muster.
type machine struct {
	home instance.Home
	// command is how muster is called for this data folder.
	command      invocation
	config       configuration.Embedded
	start        start
	version      string
	say          func(format string, args ...any)
	startTimeout time.Duration

	log   *slog.Logger
	state instance.State
	began time.Time

	plane   *controlplane.ControlPlane
	users   *account.Directory
	sockets []net.Listener // of systemd
	notify  string         // the socket of systemd, for messages
	gpus    gpu.Source
	runtime *process.Runtime
	network *network.Network
	guard   *guard.Guard
	tier    node.Tier
	images  *image.Store
	// noImages says why there is no store of images.
	noImages string
	// shared says that several users share this Muster; kept are its stores.
	shared bool
	// several is what a shared Muster has besides.
	several several
	kept    *holdings
	// place runs the programs of builder.
	place   *confinement.Confinement
	builder *environment.Builder
	reader  *reading.Reader
	mounts  *mounts
	// foreman gives out what pipelines compute.
	foreman *foreman.Foreman
	// worker is the program of stages in images, and stages knows these images, and
	// those of jobs with packages on top.
	worker string
	stages *gallery.Gallery
	// outfitter has environments made, in images, too.
	outfitter   *outfitter.Outfitter
	interpreter environment.Interpreter
}

// run starts everything, waits until ctx ends or a part fails, and stops
// everything. What is training goes on.
func (m *machine) run(ctx context.Context) (err error) {
	m.began = time.Now()
	release, err := controlplane.Lock(ctx, string(m.home))
	if err != nil {
		return taken(m.home, m.command, time.Now(), err)
	}
	defer release()
	for _, note := range m.start.notes {
		m.say("%s", note)
	}
	m.state = instance.State{Phase: instance.Starting, Version: m.version, Started: m.began, Settings: m.start.file}
	if _, err := m.lookAtRoom(); err != nil {
		return err
	}
	if m.state.LowRoom != "" {
		m.sayRoom()
	}
	if err := m.home.Write(m.state); err != nil {
		return err
	}
	defer func() {
		m.state.Phase = instance.Stopped
		if err != nil {
			m.state.Phase, m.state.Error = instance.Failed, err.Error()
		}
		err = errors.Join(err, m.home.Write(m.state))
	}()
	m.openLog()
	if err := errors.Join(m.takeSockets(), m.takeNotify()); err != nil {
		return err
	}
	// 1. What does not need one another, side by side.
	if err := m.prepare(ctx); err != nil {
		return errors.Join(err, m.close())
	}
	// 2. What needs the API server.
	err = m.serve(ctx)
	m.say("stopping; what is training goes on")
	m.tell(context.WithoutCancel(ctx), systemd.Stopping)
	m.state.Phase = instance.Stopping
	return errors.Join(err, m.home.Write(m.state), m.close())
}

// openLog sends everything that libraries log to this process's standard
// error, which is the log file of a detached Muster: warnings and errors only.
func (m *machine) openLog() {
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	m.log = slog.New(handler)
	klog.SetSlogLogger(m.log)
	ctrl.SetLogger(logr.FromSlogHandler(handler))
}

func (m *machine) prepare(ctx context.Context) (err error) {
	if _, err := m.groupQueues(); err != nil { // before anything starts
		return err
	}
	if err := m.inherit(); err != nil {
		return err
	}
	// The builder and the fetcher need it.
	if m.kept, err = m.openHoldings(); err != nil {
		return err
	}
	m.users = account.New(account.Options{})
	ctx, cancel := context.WithTimeoutCause(ctx, m.startTimeout, errNotReady)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		m.plane, err = controlplane.Start(ctx, controlplane.Options{DataDir: string(m.home), Port: m.config.Port, Shared: m.sharing(), Log: sentences(m.say)})
		if err == nil {
			m.state.Server = m.plane.RESTConfig().Host
			m.say("control plane ready after %.1f s on %s", time.Since(m.began).Seconds(), m.state.Server)
		}
		return err
	})
	group.Go(func() (err error) {
		m.gpus, err = gpu.Open(ctx, gpu.Options{Simulate: m.config.SimulateGPUs, Scope: string(m.home), Give: true, UserName: m.users.Name})
		return err
	})
	group.Go(func() error { return m.prepareRuntime(ctx) })
	group.Go(func() error { return m.prepareStores() })
	return group.Wait()
}

func (m *machine) prepareRuntime(ctx context.Context) error {
	path, err := shim.Extract(m.path("bin"))
	if err != nil {
		return err
	}
	if m.worker, err = shim.ExtractWorker(m.path("bin")); err != nil {
		return err
	}
	if m.runtime, err = process.New(process.Options{Root: m.path("pods"), Shim: path, Shared: m.shared}); err != nil {
		return err
	}
	if err := m.prepareSeveral(path); err != nil {
		return err
	}
	if err := m.prepareBuilder(ctx, path); err != nil {
		return err
	}
	if m.tier, m.state.TierReason, err = chooseTier(ctx, m.config.Tier, m.runtime); err != nil {
		return err
	}
	return m.openImages(ctx)
}

// prepareBuilder prepares builds of environments, with a shim. A confined build sees no
// files of this Muster but its own environment.
func (m *machine) prepareBuilder(ctx context.Context, shim string) (err error) {
	m.place, err = confinement.Open(ctx, confinement.Options{
		Dir: m.path("builds"), Shim: shim, Hidden: []string{string(m.home)}, Plain: m.config.Tier == configuration.TierPlain,
	})
	if err != nil {
		return err
	}
	m.builder, err = environment.New(environment.Options{Dir: m.path("environments"), Place: m.place, Code: m.kept.snapshots, Netrc: m.netrc, Owner: m.ownerOf(), Builds: m.builds(), Refuse: m.refuse, Log: m.log})
	return err
}

func (m *machine) prepareStores() (err error) {
	if err := m.kept.open(context.Background()); err != nil {
		return err
	}
	arrivals, err := m.arrivals()
	if err != nil {
		return err
	}
	m.foreman, err = foreman.New(foreman.Options{Dir: m.path("pipelines"), Arrivals: arrivals, Near: m.shared, Log: m.log})
	return err
}

// serve runs the node and the controllers until ctx ends or one of them fails.
func (m *machine) serve(ctx context.Context) error {
	err := m.openGuard()
	if err != nil {
		return err
	}
	if m.reader, err = m.makeReader(); err != nil {
		return err
	}
	if m.mounts, err = m.openMounts(); err != nil {
		return err
	}
	n, err := m.makeNode(ctx)
	if err != nil {
		return err
	}
	m.several.refusal = n.Refusal
	m.stages = m.makeGallery()
	m.outfitter = outfitter.New(m.builder, m.stages)
	controllers, err := m.makeManager()
	if err != nil {
		return err
	}
	keep, err := m.kept.keeper()
	if err != nil {
		return err
	}
	collect, err := m.kept.collector()
	if err != nil {
		return err
	}
	s3, err := m.openGateway()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	closeDNS, err := m.serveDNS(ctx, n)
	if err != nil {
		return err
	}
	defer closeDNS()
	group.Go(func() error { return named("the node", n.Run(ctx)) })
	group.Go(func() error { return m.runGuard(ctx) })
	group.Go(func() error { return named("the controllers", controllers.Start(ctx)) })
	group.Go(func() error { return named("the foreman of pipelines", m.foreman.Run(ctx)) })
	group.Go(func() error { return named("the images of stages", m.stages.Run(ctx)) })
	group.Go(func() error { return named("the environment builder", m.builder.Run(ctx)) })
	group.Go(func() error { return named("the outfitter", m.outfitter.Run(ctx)) })
	group.Go(func() error { return m.kept.run(ctx) })
	group.Go(func() error { return named("the reader of data", m.reader.Run(ctx)) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-m.plane.Done():
			return named("the control plane", m.plane.Err())
		}
	})
	group.Go(func() error { return named("the upkeep of code and environments", keep(ctx, n.Ready())) })
	group.Go(func() error { return named("the upkeep of data", collect(ctx, n.Ready())) })
	group.Go(func() error { return named("the S3 gateway", s3.serve(ctx)) })
	group.Go(func() error { return m.runConsole(ctx) })
	group.Go(func() error {
		if err := m.announce(ctx, group, n, s3.listens); err != nil {
			return err
		}
		return m.watchRoom(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serveDNS answers names of Services for pods of the isolated tier.
func (m *machine) serveDNS(ctx context.Context, n *node.Node) (stop func(), err error) {
	if m.network == nil {
		return func() {}, nil
	}
	dns, err := network.ServeDNS(ctx, network.DNSOptions{
		Listen: netip.AddrPortFrom(m.network.Gateway(), 53), Resolver: n.Directory(),
		Local: []netip.Prefix{m.network.PodCIDR(), m.network.ServiceCIDR()},
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = dns.Close() }, nil
}

// announce says that everything is ready, once it is.
func (m *machine) announce(ctx context.Context, group *errgroup.Group, n *node.Node, s3 <-chan string) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.Ready():
	}
	select {
	case <-ctx.Done():
		return nil
	case m.state.S3 = <-s3:
	}
	if err := m.lead(n); err != nil {
		return err
	}
	if err := m.openDoor(ctx, group, n); err != nil {
		return err
	}
	m.state.Phase = instance.Ready
	m.state.ReadySeconds = time.Since(m.began).Seconds()
	m.state.Images, m.state.Containerd, m.state.Mapped = m.describeImages(ctx), m.config.Containerd, m.config.Images.Patterns()
	m.state.Guard = m.describeGuard()
	m.state.Node, m.state.Tier, m.state.GPUSource = nodeName(), string(m.tier), m.gpus.Name()
	if err := m.home.WriteChoices(m.start.choices); err != nil {
		m.say("the next start does not use the flags of this one: %v", err)
	}
	if err := m.home.Write(m.state); err != nil {
		return err
	}
	m.tell(ctx, systemd.Ready)
	m.say("ready in %.1f s: %s tier%s", m.state.ReadySeconds, m.tier, because(m.state.TierReason))
	if m.state.Guard != "" {
		m.say("guard: %s", m.state.Guard)
	}
	if m.asksForImages() {
		m.say("images: %s", m.state.Images)
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func (m *machine) makeNode(ctx context.Context) (*node.Node, error) {
	credentials := m.plane.NodeCredentials()
	config := node.Config{
		Name: nodeName(), DataDir: string(m.home), REST: m.plane.NodeConfig(), Tier: m.tier,
		Runtime: m.runtime, GPUs: m.gpus, Images: m.config.Images, Environments: m.kept.environments(m.builder), Code: m.kept.snapshots, Data: m.reader, Mounts: m.mounts,
		ImageStore: m.images, NoImages: m.noImages, ImageRetention: time.Duration(m.config.Retention.Images),
		Labels:     m.config.NodeLabels,
		HostPorts:  v1alpha1.PortRange{First: m.config.HostPorts.First, Last: m.config.HostPorts.Last},
		Serving:    &credentials.Certificate,
		ClientCAs:  credentials.ClientCAs,
		ClientName: credentials.ClientName,
		Limits:     limits.Of(process.LimitsAvailable()),
		Accounts:   m.users,
		Log:        m.log,

		UserProcesses: m.config.UserProcesses,
	}
	if err := m.keepApart(&config); err != nil {
		return nil, err
	}
	if m.tier == node.Isolated {
		if err := m.openNetwork(ctx); err != nil {
			return nil, err
		}
		config.Network = m.network
	}
	return node.New(config)
}

func (m *machine) openNetwork(ctx context.Context) error {
	services, err := netip.ParsePrefix(m.plane.ServiceCIDR())
	if err != nil {
		return fmt.Errorf("reading the service range: %w", err)
	}
	server, err := url.Parse(m.plane.RESTConfig().Host)
	if err != nil {
		return fmt.Errorf("reading the server's address: %w", err)
	}
	address, err := netip.ParseAddrPort(server.Host)
	if err != nil {
		return fmt.Errorf("reading the server's address: %w", err)
	}
	m.network, err = network.Open(ctx, network.Options{StateDir: m.path("network"), ServiceCIDR: services, APIServer: address, Tenants: m.shared})
	if err != nil {
		return occupied(m.command, err)
	}
	for _, note := range m.network.Notes() {
		m.say("%s", note)
	}
	return nil
}

// close stops what prepare and serve started, in the opposite order.
func (m *machine) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	if m.guard != nil {
		errs = append(errs, m.guard.Close())
	}
	if m.network != nil {
		// Without pods nobody needs the bridge: leave the machine as it was.
		leave := m.network.Close
		if len(m.network.Pods()) == 0 {
			leave = m.network.Destroy
		}
		errs = append(errs, leave())
	}
	if m.place != nil {
		m.place.Close()
	}
	if m.images != nil {
		errs = append(errs, m.images.Close())
	}
	if m.kept != nil {
		errs = append(errs, m.kept.close())
	}
	if m.gpus != nil {
		errs = append(errs, m.gpus.Close())
	}
	m.several.close()
	if m.users != nil {
		m.users.Close()
	}
	if m.plane != nil {
		errs = append(errs, m.plane.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (m *machine) path(name string) string { return filepath.Join(string(m.home), name) }

// named says which part an error is of.
func named(part string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", part, err)
}

// nodeName is the machine's host name as a Kubernetes name.
func nodeName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return kubernetesName(name)
}

// kubernetesName makes a DNS subdomain of a host name: lower case, and every
// other character than letters, digits, '.' and '-' a '-'.
func kubernetesName(host string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, host)
	if name = strings.Trim(name, "-."); name == "" {
		return "localhost"
	}
	return name
}

// sentences is a writer that says each line.
type sentences func(format string, args ...any)

// Write says the lines in p.
func (say sentences) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		say("%s", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

var _ io.Writer = sentences(nil)
