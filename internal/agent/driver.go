package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// driver prepares claims for the kubelet. Those that wait for a GPU keep nobody else
// waiting.
type driver struct {
	node    string
	root    string
	log     *slog.Logger
	source  gpu.Source
	set     kubernetes.Interface
	records records
	specs   descriptions

	// patience is how long a claim waits for what it was given.
	patience time.Duration

	mu      sync.Mutex
	devices []gpu.Device

	// turn is who reads and writes records; freed is closed, and another, whenever a
	// claim is forgotten.
	turn  sync.Mutex
	freed chan struct{}
}

// patience is how long a claim waits for the containers that still have what it was
// given: a pod that was deleted without a grace period is gone from the API before
// they are. A kubelet that is told of an error looks at the pod again only when it
// looks at all of them, a minute later or more, and gives up on a call after 45 s
// (k8s.io/kubernetes 1.37.1: kubelet/kuberuntime/kuberuntime_manager.go, SyncPod, and
// kubelet/cm/dra/plugin/dra_plugin.go, defaultClientCallTimeout).
const patience = 35 * time.Second

func newDriver(ctx context.Context, o Options, source gpu.Source, set kubernetes.Interface, data string) (*driver, error) {
	d := &driver{node: o.Node, root: o.Root, log: o.Log, source: source, set: set, records: records{dir: data + "/claims"}, specs: descriptions{dir: o.CDIDir},
		patience: patience, freed: make(chan struct{})}
	if err := d.records.prepare(); err != nil {
		return nil, err
	}
	devices, err := source.Devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking at the GPUs of node %s: %w", o.Node, err)
	}
	d.see(reachable(devices))
	return d, nil
}

// see takes over what GPUs there are.
func (d *driver) see(devices []gpu.Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.devices = devices
}

func (d *driver) seen() []gpu.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.devices
}

// PrepareResourceClaims has the containers of claims see what they were given.
func (d *driver) PrepareResourceClaims(ctx context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	until, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	for _, claim := range claims {
		devices, err := d.prepareOnceFree(ctx, until, claim)
		if err != nil {
			err = fmt.Errorf("preparing claim %s/%s on node %s: %w", claim.Namespace, claim.Name, d.node, err)
			d.log.Error("a claim cannot be prepared", "error", err)
		}
		out[claim.UID] = kubeletplugin.PrepareResult{Err: err, Devices: devices}
	}
	return out, nil
}

// errTaken says that containers of others still have what a claim was given.
var errTaken = errors.New("not free")

// prepareOnceFree prepares a claim as soon as nobody else has what it was given, or
// says who has once until is over.
func (d *driver) prepareOnceFree(ctx, until context.Context, claim *resourcev1.ResourceClaim) ([]kubeletplugin.Device, error) {
	for {
		d.turn.Lock()
		devices, err := d.prepare(ctx, claim)
		freed := d.freed
		d.turn.Unlock()
		if !errors.Is(err, errTaken) {
			return devices, err
		}
		select {
		case <-freed:
		case <-until.Done():
			return nil, err
		}
	}
}

// prepare writes the record before the description: what a container could use
// is always accounted for.
func (d *driver) prepare(ctx context.Context, claim *resourcev1.ResourceClaim) ([]kubeletplugin.Device, error) {
	results := resultsOf(claim, d.node)
	devices := d.seen()
	wanted, err := recordOf(claim, results, devices)
	if err != nil {
		return nil, err
	}
	// 1. Is it free? Others may have been taken away without their containers.
	others, err := d.records.all()
	if err != nil {
		return nil, err
	}
	delete(others, claim.UID)
	if err := wanted.fits(devices, others); err != nil {
		return nil, err
	}
	if err := wanted.reachable(devices, d.root); err != nil {
		return nil, err
	}
	// 2. It is ours.
	if err := d.records.write(claim.UID, wanted); err != nil {
		return nil, err
	}
	// 3. Containers see it.
	id, err := d.specs.write(claim.UID, editsOf(wanted, devices, d.root))
	if err != nil {
		return nil, err
	}
	// 4. It is said what is enforced. The claim is prepared all the same.
	if err := d.report(ctx, claim, results, wanted, devices); err != nil {
		d.log.Warn("saying whether a share is enforced", "claim", claim.Namespace+"/"+claim.Name, "error", err)
	}
	var out []kubeletplugin.Device
	for i := range results {
		r := &results[i]
		device := kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, ShareID: r.ShareID}
		if i == 0 { // one description for all of the claim
			device.CDIDeviceIDs = []string{id}
		}
		out = append(out, device)
	}
	return out, nil
}

// redescribe has containers that start again under a claim see the driver that is there
// now: it may have been replaced by another version.
func (d *driver) redescribe() error {
	d.turn.Lock()
	defer d.turn.Unlock()
	all, err := d.records.all()
	if err != nil {
		return err
	}
	devices := d.seen()
	for claim, r := range all {
		if r.reachable(devices, d.root) != nil {
			continue // while there is no driver, what was described stays
		}
		if _, err := d.specs.write(claim, editsOf(r, devices, d.root)); err != nil {
			return fmt.Errorf("describing anew what claim %s has: %w", r.Claim, err)
		}
	}
	return nil
}

// resultsOf are what a claim has of this driver on this node.
func resultsOf(claim *resourcev1.ResourceClaim, node string) []resourcev1.DeviceRequestAllocationResult {
	var out []resourcev1.DeviceRequestAllocationResult
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver == inventory.Driver && r.Pool == node {
			out = append(out, r)
		}
	}
	return out
}

// UnprepareResourceClaims forgets claims whose containers are gone.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := map[types.UID]error{}
	d.turn.Lock()
	defer d.turn.Unlock()
	for _, claim := range claims {
		err := errors.Join(d.specs.remove(claim.UID), d.records.remove(claim.UID))
		if err != nil {
			err = fmt.Errorf("unpreparing claim %s on node %s: %w", claim, d.node, err)
			d.log.Error("a claim cannot be unprepared", "error", err)
		}
		out[claim.UID] = err
	}
	close(d.freed)
	d.freed = make(chan struct{})
	return out, nil
}

// HandleError notes what went wrong in the background: writing slices, which is
// tried again.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	d.log.Error(msg, "error", err)
}

// WatchHealthStatus is not offered: a GPU that must not be given out says so in
// its slice.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// device finds a device by its name in slices.
func device(devices []gpu.Device, name string) (gpu.Device, bool) {
	at := slices.IndexFunc(devices, func(d gpu.Device) bool { return deviceName(d) == name })
	if at < 0 {
		return gpu.Device{}, false
	}
	return devices[at], true
}
