package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// Options are what an agent needs.
type Options struct {
	// REST is how to reach the API server.
	REST *rest.Config
	// Node is the name of the node that it runs on.
	Node string
	// Simulate declares pretend GPUs instead of looking for real ones, such as
	// "8xA100".
	Simulate string
	// Root is where the files of the machine are, whose driver is looked for, and
	// whose libraries containers are given. Default: /.
	Root string
	// KubeletDir is the kubelet's folder. Default: /var/lib/kubelet.
	KubeletDir string
	// CDIDir is where the container runtime looks for descriptions of devices.
	// Default: /var/run/cdi.
	CDIDir string
	// Door is the address of the manager's door, which is told how far pods say
	// that they are, and DoorToken the file with this agent's token for it. Empty:
	// what pods report is not read.
	Door, DoorToken string
	// Code has it bring pods the code and the environments of their jobs, fetched
	// at the door.
	Code bool
	// Data has it bring pods the data that their jobs read, fetched at the door.
	Data bool
	// FetchProgram are the arguments by which this program is the process that fetches code
	// and data (fetcher.Main). Required with Code and Data.
	FetchProgram []string
	// DataCache is how many bytes of data are kept on the node. Default: half of what
	// the disk has.
	DataCache int64
	// DataLeavesFree is how much of the disk is left free by what is fetched before a
	// pod names it, in percent.
	DataLeavesFree int
	// HealthAddress is what /healthz and /readyz are served on, as host:port.
	// Empty: nowhere.
	HealthAddress string
	// Log receives what no caller can. Default: discarded.
	Log *slog.Logger
}

// lookEvery is how often the node's GPUs are looked at again: one may have
// failed.
const lookEvery = 30 * time.Second

func (o Options) complete() Options {
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.CDIDir == "" {
		o.CDIDir = kubeletplugin.DefaultCDIDir
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run is an agent until the context ends. What it prepared stays prepared, and
// the slices stay: the kubelet removes those of a driver that does not come
// back.
func Run(ctx context.Context, o Options) error {
	o = o.complete()
	data := filepath.Join(o.KubeletDir, "plugins", inventory.Driver)
	for _, dir := range []string{data, o.CDIDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the agent's folders: %w", err)
		}
	}
	source, err := gpu.Open(ctx, gpu.Options{Simulate: o.Simulate, Scope: "agent", Host: o.Node, Root: o.Root, Give: true, Await: true, LockDir: filepath.Join(data, "locks")})
	if err != nil {
		return fmt.Errorf("looking for the GPUs of node %s: %w", o.Node, err)
	}
	defer func() { _ = source.Close() }()
	set, err := kubernetes.NewForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	d, err := newDriver(ctx, o, source, set, data)
	if err != nil {
		return err
	}
	var parts []func(context.Context) error
	if o.Door != "" {
		if parts, err = atTheDoor(ctx, o, set); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(inventory.Driver), kubeletplugin.NodeName(o.Node), kubeletplugin.KubeClient(set),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(o.KubeletDir, "plugins_registry")), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.HealthService(false), kubeletplugin.Serialize(false)) // the driver takes turns
	if err != nil {
		return fmt.Errorf("offering the driver to the kubelet: %w", err)
	}
	defer helper.Stop()
	group, ctx := errgroup.WithContext(ctx)
	if o.HealthAddress != "" {
		group.Go(func() error {
			return serveHealth(ctx, o.HealthAddress, func() bool { return helper.RegistrationStatus().GetPluginRegistered() })
		})
	}
	group.Go(func() error { return d.publish(ctx, helper) })
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}

// publish names the node's GPUs until the context ends, anew whenever they are
// others.
func (d *driver) publish(ctx context.Context, helper *kubeletplugin.Helper) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last []gpu.Device
	var files []gpu.File
	for first := true; ; first = false {
		devices, err := d.source.Devices(ctx)
		devices = reachable(devices)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			d.log.Error("looking at the GPUs; what was published stays", "error", err)
		case first || !slices.Equal(devices, last):
			d.see(devices)
			if err := helper.PublishResources(ctx, resources(d.node, devices)); err != nil {
				return fmt.Errorf("publishing the GPUs of node %s: %w", d.node, err)
			}
			d.log.Info("publishing", "node", d.node, "gpus", len(devices), "source", d.source.Name())
			last = devices
		}
		if now := gpu.DriverFiles(d.root); !slices.Equal(now, files) {
			if err := d.redescribe(); err != nil {
				d.log.Error("the driver's files are others", "error", err)
			}
			files = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reachable marks real devices unhealthy of which no file is known: containers
// would be given one and not see it.
func reachable(devices []gpu.Device) []gpu.Device {
	for i, d := range devices {
		if d.Node == "" && !d.Simulated && d.Unhealthy == "" {
			devices[i].Unhealthy = "the driver does not tell which file below /dev it is"
		}
	}
	return devices
}

// serveHealth answers /healthz, and /readyz with yes once the kubelet knows the
// driver.
func serveHealth(ctx context.Context, address string, ready func() bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "the kubelet does not know the driver yet", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for questions about health: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("answering questions about health: %w", err)
	}
	return nil
}
