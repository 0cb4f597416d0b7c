package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/identity"
	"github.com/muster-dev/muster/internal/node/image"
	"github.com/muster-dev/muster/internal/node/limits"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/node/volume"
)

// Tier is how far pods are kept apart.
type Tier string

// The tiers.
const (
	// Plain: pods share the machine's namespaces.
	Plain Tier = "plain"
	// Isolated: pods have namespaces, and addresses, of their own.
	Isolated Tier = "isolated"
)

// LabelTier is the Node label that holds the tier.
const LabelTier = "muster.dev/tier"

// PodNetwork is the pod network as the node uses it; *network.Network is one.
type PodNetwork interface {
	AddPod(uid string, of network.Tenant) (network.Pod, error)
	RemovePod(uid string) error
	Pods() []network.Pod
	SetServices(services []network.Service) error
	Gateway() netip.Addr
	PodCIDR() netip.Prefix
}

// Config is what a Node needs.
type Config struct {
	// Name is the Node object's name. Required.
	Name string
	// DataDir is Muster's data folder. Required. The node uses pods/, jobs/
	// and archive/ in it.
	DataDir string
	// REST is how the API server is reached; set QPS to -1. Required.
	REST *rest.Config
	// Tier is how far pods are kept apart. Default: Plain.
	Tier Tier
	// Runtime runs containers; its root is <DataDir>/pods. Required.
	Runtime *process.Runtime
	// Network gives pods addresses. Required in the isolated tier, nil in the
	// plain one (a nil interface, not a nil *network.Network).
	Network PodNetwork
	// GPUs finds the machine's GPUs. Nil: there are none.
	GPUs gpu.Source
	// HostPorts are the ports that members are given in the plain tier.
	// Default: 20000 to 29999.
	HostPorts v1alpha1.PortRange
	// Labels are put on the Node beside the node's own. Those of an earlier
	// registration that are not among them any more are removed.
	Labels map[string]string
	// Images maps images to programs of this machine.
	Images configuration.Images
	// ImageStore has the other images pulled and unpacked. Nil: pods that name
	// one are refused.
	ImageStore *image.Store
	// NoImages says why there is no ImageStore.
	NoImages string
	// ImageRetention is how long after its last use an image is kept that was
	// pulled and that no pod names. 0: for ever.
	ImageRetention time.Duration
	// Environments serves environment volumes. Nil: there are none.
	Environments volume.Environments
	// Code serves code volumes. Nil: there are none.
	Code volume.Code
	// Data serves data volumes. Nil: there are none.
	Data volume.Data
	// Mounts serves data volumes that are read as they are asked for. Nil: none are.
	Mounts volume.Mounts
	// Stages serves stage volumes, on a machine that several users share. Nil: none are.
	Stages volume.Stages
	// LookEvery is how often each pod is asked how far it is and when its work
	// was saved, and how often at most that is written to the API. Default:
	// 15 s.
	LookEvery time.Duration
	// Serving is the certificate of the kubelet API, valid for 127.0.0.1.
	// Without one the API is not served.
	Serving *tls.Certificate
	// ClientCAs sign the certificate by which the API server shows itself to
	// the kubelet API. Required with Serving.
	ClientCAs *x509.CertPool
	// ClientName is the common name that this certificate must bear. Empty:
	// any.
	ClientName string
	// APIPort is the kubelet API's TCP port on 127.0.0.1. 0: a free one.
	APIPort int
	// HostIP is the machine's address in Node and pod status. Default: the
	// gateway of the pod network, else the address of the default route.
	HostIP string
	// Reserved is kept back from what pods may request.
	Reserved corev1.ResourceList
	// ImageUsers returns the numbers in the user namespaces of images of a namespace, or a sentence by
	// which its images are refused. Nil: images have the machine's.
	ImageUsers func(namespace string) (*process.Users, error)
	// Tenant tells whose the pods of a namespace are. Nil: the machine has one user.
	Tenant func(namespace string) network.Tenant
	// Accounts tells which users the machine has. Default: those of its files.
	Accounts identity.Accounts
	// Shared is true on a machine that several users share: a pod runs as the owner of its
	// namespace, u-<uid>, with files of that user, and other namespaces have no pods. It needs root,
	// and a Runtime for it.
	Shared bool
	// UserFiles works with the files of users. Required on a machine that several users share.
	UserFiles *userfiles.Helpers
	// UserProcesses is the highest number of processes and threads of one user there. Default: a
	// third of what the machine allows.
	UserProcesses int64
	// UserDisk is the highest number of bytes that the files of one user there may need below DataDir. 0:
	// only the space of the disk bounds them.
	UserDisk int64
	// Limits says whether the Runtime keeps the limits of containers.
	Limits limits.Kept
	// Log takes what a person may need to know. Default: nothing.
	Log *slog.Logger
	// Clock is the time in all decisions. Default: the machine's.
	Clock clock.WithTicker
}

// complete checks the configuration and fills in the defaults.
func (c *Config) complete() error {
	if errs := validation.IsDNS1123Subdomain(c.Name); len(errs) > 0 {
		return fmt.Errorf("node name %q: %s", c.Name, errs[0])
	}
	if !filepath.IsAbs(c.DataDir) {
		return fmt.Errorf("data folder %q: must be an absolute path", c.DataDir)
	}
	if c.Runtime == nil {
		return errors.New("the node needs a runtime")
	}
	if c.Shared && os.Geteuid() != 0 {
		return errors.New("a machine that users share needs a node that runs as root: it starts pods as their users")
	}
	if c.Shared != c.Runtime.Shared() {
		return errors.New("the node and its runtime differ: both are for a machine that users share, or neither is")
	}
	if c.Shared != (c.UserFiles != nil) {
		return errors.New("a node has UserFiles if users share its machine, and else none")
	}
	if c.Accounts == nil {
		c.Accounts = account.New(account.Options{FilesOnly: true})
	}
	if c.Tier == "" {
		c.Tier = Plain
	}
	if (c.Tier == Isolated) != (c.Network != nil) {
		return fmt.Errorf("tier %s: a pod network is needed in the isolated tier, and only there", c.Tier)
	}
	if c.Serving != nil && c.ClientCAs == nil {
		return errors.New("the kubelet API needs ClientCAs, or anybody could run commands in pods")
	}
	if c.HostPorts == (v1alpha1.PortRange{}) {
		c.HostPorts = v1alpha1.PortRange{First: 20000, Last: 29999}
	}
	if c.LookEvery <= 0 {
		c.LookEvery = lookEvery
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.HostIP == "" {
		c.HostIP = hostIP(c.Network)
	}
	return nil
}

// hostIP is the address by which pods and people reach this machine.
func hostIP(pods PodNetwork) string {
	if pods != nil {
		return pods.Gateway().String()
	}
	// Connecting a UDP socket sends nothing; it makes the kernel choose the
	// address of the route. The target is a documentation address.
	if conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}); err == nil {
		defer func() { _ = conn.Close() }()
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok && !local.IP.IsLoopback() {
			return local.IP.String()
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addresses {
		if prefix, ok := a.(*net.IPNet); ok && prefix.IP.To4() != nil && prefix.IP.IsGlobalUnicast() {
			return prefix.IP.String()
		}
	}
	return "127.0.0.1"
}

func (c *Config) podsDir() string    { return filepath.Join(c.DataDir, "pods") }
func (c *Config) jobsDir() string    { return filepath.Join(c.DataDir, "jobs") }
func (c *Config) volumesDir() string { return filepath.Join(c.DataDir, "volumes") } // their controller makes them
func (c *Config) archiveDir() string { return filepath.Join(c.DataDir, "archive") }

// offeredPorts are the ports of the machine that pods get; nil: pods have addresses of their own.
func (c *Config) offeredPorts() *v1alpha1.PortRange {
	if c.Tier != Plain {
		return nil
	}
	ports := c.HostPorts
	return &ports
}
