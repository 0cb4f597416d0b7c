package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/registry"
)

// sampleEvery is how often GPUs are looked at.
const sampleEvery = 2 * time.Second

// quarantined is a pod whose processes run and that this cluster does not
// know.
type quarantined struct {
	uid  types.UID
	name string
	pids []int
	gpus []string
}

// inventory knows the node's GPUs and who uses them. Its methods may be called
// concurrently.
type inventory struct {
	node *Node

	mu      sync.Mutex
	found   []gpu.Device
	samples []gpu.Sample
	foreign map[string][]gpu.Process
	held    map[types.UID]quarantined
	changed chan struct{} // of capacity 1
}

func newInventory(n *Node) *inventory {
	return &inventory{
		node: n, foreign: map[string][]gpu.Process{}, held: map[types.UID]quarantined{}, changed: make(chan struct{}, 1),
	}
}

// devices lists the GPUs; those that a quarantined process holds are
// unhealthy.
func (i *inventory) devices() []gpu.Device {
	i.mu.Lock()
	defer i.mu.Unlock()
	devices := slices.Clone(i.found)
	for _, q := range i.held {
		for d := range devices {
			if slices.Contains(q.gpus, devices[d].UUID) {
				devices[d].Unhealthy = fmt.Sprintf("held by quarantined processes of pod %s %v", q.name, q.pids)
			}
		}
	}
	return devices
}

// Samples is what the GPUs did when they were last looked at, about two
// seconds ago at most.
func (n *Node) Samples() []gpu.Sample {
	n.inventory.mu.Lock()
	defer n.inventory.mu.Unlock()
	return slices.Clone(n.inventory.samples)
}

func (i *inventory) quarantine(q quarantined) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held[q.uid] = q
	i.notify()
}

func (i *inventory) unquarantine(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.held, uid)
	i.notify()
}

func (i *inventory) notify() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// run looks at the GPUs until ctx ends.
func (i *inventory) run(ctx context.Context) {
	if i.node.config.GPUs == nil {
		return
	}
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.node.config.Clock.After(sampleEvery):
		}
		err := i.refresh(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			i.node.config.Log.Warn("looking at the GPUs", "error", err)
		}
	}
}

// refresh looks at the GPUs once.
func (i *inventory) refresh(ctx context.Context) error {
	source := i.node.config.GPUs
	if source == nil {
		return nil
	}
	// A process that ended or started while the driver was asked is on one of
	// the two lists. Those of an earlier Muster's are not registered until a
	// pod has claimed them.
	own := i.node.live.Holders()
	registry.AddHolders(own, i.node.inheritedProcesses())
	devices, err := source.Devices(ctx)
	if err != nil {
		return fmt.Errorf("listing GPUs: %w", err)
	}
	samples, err := source.Sample(ctx)
	if err != nil {
		return fmt.Errorf("sampling GPUs: %w", err)
	}
	maps.Copy(own, i.node.live.Holders())
	foreign := gpu.Outsiders(samples, own, alive)
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.Equal(devices, i.found) || !sameForeign(foreign, i.foreign) {
		i.notify()
	}
	i.found, i.samples, i.foreign = devices, samples, foreign
	return nil
}

func alive(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

// sameForeign compares without amounts of memory, which change all the time.
func sameForeign(a, b map[string][]gpu.Process) bool {
	if len(a) != len(b) {
		return false
	}
	for uuid, list := range a {
		if !slices.EqualFunc(list, b[uuid], func(x, y gpu.Process) bool {
			return x.PID == y.PID && x.User == y.User && x.Command == y.Command
		}) {
			return false
		}
	}
	return true
}

// annotation is what the Node object says of the inventory.
func (i *inventory) annotation() (string, error) {
	out := v1alpha1.NodeInventory{}
	if i.node.config.Tier == Plain {
		ports := i.node.config.HostPorts
		out.HostPorts = &ports
	}
	devices := i.devices()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range devices {
		g := v1alpha1.GPUDevice{
			Index: d.Index, UUID: d.UUID, Model: d.Model, Product: d.Product,
			MemoryMiB: d.MemoryMiB, Simulated: d.Simulated, Unhealthy: d.Unhealthy,
		}
		for _, p := range i.foreign[d.UUID] {
			g.Foreign = append(g.Foreign, v1alpha1.ForeignProcess{PID: p.PID, User: p.User, Command: p.Command, MemoryMiB: p.MemoryMiB})
		}
		out.GPUs = append(out.GPUs, g)
	}
	for _, q := range i.held {
		out.Quarantined = append(out.Quarantined, fmt.Sprintf("pod %s (%s), processes %v", q.name, q.uid, q.pids))
	}
	slices.Sort(out.Quarantined)
	data, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encoding the inventory: %w", err)
	}
	return string(data), nil
}
