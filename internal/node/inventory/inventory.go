package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// sampleEvery is how often GPUs are looked at.
const sampleEvery = 2 * time.Second

// Quarantined is a pod whose processes run and that this cluster does not know.
type Quarantined struct {
	UID  types.UID
	Name string
	PIDs []int
	// GPUs are the UUIDs of the GPUs that the pod holds.
	GPUs []string
}

// Options make an Inventory.
type Options struct {
	// GPUs finds the machine's GPUs. Nil: there are none.
	GPUs gpu.Source
	// Holders are the node's own processes by PID. Required with GPUs.
	Holders func() map[int]gpu.Holder
	// HostPorts are the ports of the machine that pods get; nil: the Node object names none.
	HostPorts *v1alpha1.PortRange
	// Clock is the time. Required.
	Clock clock.Clock
	// Log takes warnings. Required.
	Log *slog.Logger
}

// Inventory knows the node's GPUs and who uses them. Its methods may be called concurrently.
type Inventory struct {
	o Options

	mu      sync.Mutex
	found   []gpu.Device
	samples []gpu.Sample
	foreign map[string][]gpu.Process
	held    map[types.UID]Quarantined
	changed chan struct{} // of capacity 1
}

// New makes an Inventory that has not looked at the GPUs yet.
func New(o Options) *Inventory {
	return &Inventory{o: o, foreign: map[string][]gpu.Process{}, held: map[types.UID]Quarantined{}, changed: make(chan struct{}, 1)}
}

// Changed receives a value after a change of what the Node object says.
func (i *Inventory) Changed() <-chan struct{} { return i.changed }

// Devices lists the GPUs; those that a quarantined process holds are
// unhealthy.
func (i *Inventory) Devices() []gpu.Device {
	i.mu.Lock()
	defer i.mu.Unlock()
	devices := slices.Clone(i.found)
	for _, q := range i.held {
		for d := range devices {
			if slices.Contains(q.GPUs, devices[d].UUID) {
				devices[d].Unhealthy = fmt.Sprintf("held by quarantined processes of pod %s %v", q.Name, q.PIDs)
			}
		}
	}
	return devices
}

// Samples is what the GPUs did when they were last looked at, about two
// seconds ago at most.
func (i *Inventory) Samples() []gpu.Sample {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.samples)
}

// Quarantine shows a pod, and its GPUs as unhealthy.
func (i *Inventory) Quarantine(q Quarantined) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held[q.UID] = q
	i.Notify()
}

// Unquarantine ends a quarantine.
func (i *Inventory) Unquarantine(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.held, uid)
	i.Notify()
}

// Notify has the Node object written again.
func (i *Inventory) Notify() {
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// Run looks at the GPUs until ctx ends.
func (i *Inventory) Run(ctx context.Context) {
	if i.o.GPUs == nil {
		return
	}
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.o.Clock.After(sampleEvery):
		}
		err := i.Refresh(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			i.o.Log.Warn("looking at the GPUs", "error", err)
		}
	}
}

// Refresh looks at the GPUs once.
func (i *Inventory) Refresh(ctx context.Context) error {
	source := i.o.GPUs
	if source == nil {
		return nil
	}
	// A process that ended or started while the driver was asked is on one of
	// the two lists.
	own := i.o.Holders()
	devices, err := source.Devices(ctx)
	if err != nil {
		return fmt.Errorf("listing GPUs: %w", err)
	}
	samples, err := source.Sample(ctx)
	if err != nil {
		return fmt.Errorf("sampling GPUs: %w", err)
	}
	maps.Copy(own, i.o.Holders())
	foreign := gpu.Outsiders(samples, own, alive)
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.Equal(devices, i.found) || !sameForeign(foreign, i.foreign) {
		i.Notify()
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

// Annotation is what the Node object says of the inventory.
func (i *Inventory) Annotation() (string, error) {
	out := v1alpha1.NodeInventory{HostPorts: i.o.HostPorts}
	devices := i.Devices()
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
		out.Quarantined = append(out.Quarantined, fmt.Sprintf("pod %s (%s), processes %v", q.Name, q.UID, q.PIDs))
	}
	slices.Sort(out.Quarantined)
	data, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("encoding the inventory: %w", err)
	}
	return string(data), nil
}
