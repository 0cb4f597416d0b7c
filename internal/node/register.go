package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const (
	leaseEvery    = 10 * time.Second
	leaseSeconds  = int32(40)
	statusEvery   = time.Minute
	mostPods      = 1000
	kubeletCompat = "v1.37.1"
	apiAddress    = "127.0.0.1"
)

// register makes the Node object, or brings an earlier one up to date, and
// takes the lease. It tries until it succeeds or ctx ends.
func (n *Node) register(ctx context.Context) error {
	for told := false; ; {
		err := n.tryRegister(ctx)
		if err == nil {
			return nil
		}
		if !told {
			told = true
			n.config.Log.Warn("registering the node", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("registering the node: %w", err)
		case <-time.After(time.Second):
		}
	}
}

func (n *Node) tryRegister(ctx context.Context) error {
	metadata, err := n.metadata()
	if err != nil {
		return err
	}
	nodes := n.clients.Core.CoreV1().Nodes()
	_, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metadata}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = n.patchMetadata(ctx, metadata)
	}
	if err != nil {
		return err
	}
	if err := n.patchStatus(ctx); err != nil {
		return err
	}
	return n.renew(ctx)
}

// metadata are the labels and annotations of the Node object.
func (n *Node) metadata() (metav1.ObjectMeta, error) {
	inventory, err := n.inventory.Annotation()
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	labels := map[string]string{
		corev1.LabelHostname:   n.config.Name,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
		LabelTier:              string(n.config.Tier),
	}
	if product := n.product(); product != "" {
		labels[v1alpha1.LabelGPUModel] = product
	}
	for key, value := range n.config.Labels {
		labels[key] = value
	}
	return metav1.ObjectMeta{
		Name: n.config.Name, Labels: labels,
		Annotations: map[string]string{
			v1alpha1.AnnotationInventory:  inventory,
			v1alpha1.AnnotationNodeLabels: strings.Join(slices.Sorted(maps.Keys(n.config.Labels)), ","),
		},
	}, nil
}

// product is the product name of the node's GPUs, as a label value, if all are
// alike.
func (n *Node) product() string {
	product := ""
	for i, d := range n.inventory.Devices() {
		if i > 0 && d.Product != product {
			return ""
		}
		product = d.Product
	}
	value := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, product)
	return strings.Trim(value[:min(len(value), 63)], "-._")
}

func (n *Node) patchMetadata(ctx context.Context, metadata metav1.ObjectMeta) error {
	have, err := n.clients.Core.CoreV1().Nodes().Get(ctx, n.config.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	labels := map[string]any{v1alpha1.LabelGPUModel: nil}
	for key := range strings.SplitSeq(have.Annotations[v1alpha1.AnnotationNodeLabels], ",") {
		if key != "" {
			labels[key] = nil // of an earlier configuration
		}
	}
	for key, value := range metadata.Labels {
		labels[key] = value
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": metadata.Annotations}})
	if err != nil {
		return fmt.Errorf("encoding the node: %w", err)
	}
	_, err = n.clients.Core.CoreV1().Nodes().Patch(ctx, n.config.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
	return err
}

func (n *Node) patchStatus(ctx context.Context) error {
	status, err := json.Marshal(n.status())
	if err != nil {
		return fmt.Errorf("encoding the node: %w", err)
	}
	data := append(append([]byte(`{"status":`), status...), '}')
	_, err = n.clients.Core.CoreV1().Nodes().Patch(ctx, n.config.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// status is the Node object's status.
func (n *Node) status() corev1.NodeStatus {
	now := metav1.NewTime(n.config.Clock.Now())
	condition := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: t, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: now, LastTransitionTime: metav1.NewTime(n.started),
		}
	}
	capacity := n.capacity.DeepCopy()
	healthy, all := 0, 0
	for _, d := range n.inventory.Devices() {
		all++
		if d.Unhealthy == "" {
			healthy++
		}
	}
	allocatable := n.allocatable()
	capacity[v1alpha1.ResourceGPU] = *resource.NewQuantity(int64(all), resource.DecimalSI)
	allocatable[v1alpha1.ResourceGPU] = *resource.NewQuantity(int64(healthy), resource.DecimalSI)
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: allocatable,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: apiAddress},
			{Type: corev1.NodeInternalIP, Address: n.config.HostIP},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(n.apiPort)}},
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue, "NodeReady", "pods run as processes, "+string(n.config.Tier)+" tier"),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "NotWatched", ""),
			n.diskPressure(condition),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "NotWatched", ""),
			condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "NetworkReady", ""),
		},
		NodeInfo: systemInfo(),
	}
}

// heartbeat renews the lease and the Node object's status until ctx ends.
func (n *Node) heartbeat(ctx context.Context) {
	clock := n.config.Clock
	lease, status := clock.NewTicker(leaseEvery), clock.NewTicker(statusEvery)
	defer lease.Stop()
	defer status.Stop()
	pressed := n.pressed()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-lease.C():
			if err = n.renew(ctx); err == nil && n.pressed() != pressed {
				pressed = !pressed
				err = n.patchStatus(ctx)
			}
		case <-status.C():
			err = n.patchStatus(ctx)
		case <-n.inventory.Changed():
			// Registering again also serves a Node object that was deleted.
			if err = n.tryRegister(ctx); err != nil {
				n.inventory.Notify()
				select {
				case <-ctx.Done():
				case <-clock.After(time.Second):
				}
			}
		}
		if apierrors.IsNotFound(err) {
			n.inventory.Notify()
		}
		if err != nil && ctx.Err() == nil {
			n.config.Log.Warn("keeping the node registered", "error", err)
		}
	}
}

// renew renews the node's lease.
func (n *Node) renew(ctx context.Context) error {
	leases := n.clients.Core.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, seconds := metav1.NewMicroTime(n.config.Clock.Now()), leaseSeconds
	lease, err := leases.Get(ctx, n.config.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: n.config.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.config.Name, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &n.config.Name, &seconds, &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// allocatable is what pods may request, apart from GPUs.
func (n *Node) allocatable() corev1.ResourceList {
	out := n.capacity.DeepCopy()
	for name, reserved := range n.config.Reserved {
		if q, ok := out[name]; ok {
			q.Sub(reserved)
			if q.Sign() < 0 {
				q = resource.Quantity{}
			}
			out[name] = q
		}
	}
	return out
}

// capacityOf measures the machine.
func capacityOf(dataDir string) (corev1.ResourceList, error) {
	memory, err := totalMemory()
	if err != nil {
		return nil, err
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dataDir, &disk); err != nil {
		return nil, fmt.Errorf("measuring the disk of %s: %w", dataDir, err)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(disk.Blocks)*disk.Bsize, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(mostPods, resource.DecimalSI),
	}, nil
}

func totalMemory() (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("measuring the memory: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("measuring the memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("measuring the memory: /proc/meminfo has no MemTotal")
}

// systemInfo describes the machine.
func systemInfo() corev1.NodeSystemInfo {
	read := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	info := corev1.NodeSystemInfo{
		MachineID: read("/etc/machine-id"), BootID: read("/proc/sys/kernel/random/boot_id"),
		KernelVersion: read("/proc/sys/kernel/osrelease"), OSImage: "Linux",
		ContainerRuntimeVersion: "muster://1", KubeletVersion: kubeletCompat,
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
	}
	for line := range strings.Lines(read("/etc/os-release")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			info.OSImage = strings.Trim(value, `"`)
		}
	}
	return info
}
