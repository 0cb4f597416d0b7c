package controlplane

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/controlplane/contract"
)

// DefaultPort is the API server's port where it is free.
const DefaultPort = 6443

// Options say how the control plane is to run. The zero value of everything
// but DataDir is a good choice.
type Options struct {
	// DataDir is the data folder. It is created, and closed to others.
	// Required. The caller holds its lock ([Lock]).
	DataDir string
	// Port is the API server's port on 127.0.0.1. It is an error if it is
	// taken. 0: the port used last time, else [DefaultPort], else any that is
	// free.
	Port int
	// Executable is the command that runs the child: its arguments up to and
	// including the hidden verb. Default: this executable and
	// [contract.Verb].
	Executable []string
	// ServiceCIDR is the IPv4 range of ClusterIPs, between /12 and /24. Empty:
	// the range used last time, else the first of a few private ranges that
	// overlaps no route of this machine.
	ServiceCIDR string
	// Log receives what the user should know, one sentence a line: a port
	// that was taken, a child that was replaced. Default: nowhere. Upstream's
	// own log goes to <DataDir>/control-plane.log.
	Log io.Writer
	// Unsafe leaves out fsync: a power cut may then lose everything. For
	// tests.
	Unsafe bool
	// Shared makes the control plane one for several users of the machine. Nil: it has one
	// user.
	Shared *Sharing
	// Bare starts kube-apiserver and etcd alone, with upstream's own settings
	// and none of Muster's objects. For measurements.
	Bare bool
}

// complete checks o and fills in what was left out.
func (o Options) complete() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("starting the control plane: no data folder given")
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("finding the data folder: %w", err)
	}
	o.DataDir = dir
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("port %d is not a port: give one from 1 to 65535, or 0 for any", o.Port)
	}
	if o.ServiceCIDR != "" {
		prefix, err := netip.ParsePrefix(o.ServiceCIDR)
		if err != nil || !prefix.Addr().Is4() || prefix.Bits() < 12 || prefix.Bits() > 24 || prefix.Masked() != prefix {
			return o, fmt.Errorf("service range %q is not usable: give an IPv4 range such as %s, between /12 and /24", o.ServiceCIDR, serviceRanges[0])
		}
	}
	if o.Shared != nil && o.Bare {
		return o, errors.New("starting the control plane: a bare one cannot be shared")
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if len(o.Executable) == 0 {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("finding this executable: %w", err)
		}
		o.Executable = []string{self, contract.Verb}
	}
	return o, nil
}

// order is what the child is told.
func (o Options) order(serviceCIDR string) contract.Order {
	order := contract.Order{
		Bare:                 o.Bare,
		DataDir:              o.DataDir,
		Log:                  o.logFile(),
		ServiceCIDR:          serviceCIDR,
		Kubeconfig:           filepath.Join(o.DataDir, "pki", "controllers.kubeconfig"),
		AuthenticationConfig: filepath.Join(o.DataDir, "pki", "authentication.yaml"),
		Unsafe:               o.Unsafe,
		Shared:               o.Shared != nil,
	}
	if order.Shared {
		order.AuditPolicy, order.AuditLog = o.auditPolicy(), filepath.Join(o.DataDir, "audit.log")
	}
	return order
}

func (o Options) logFile() string    { return filepath.Join(o.DataDir, "control-plane.log") }
func (o Options) kubeconfig() string { return filepath.Join(o.DataDir, "kubeconfig") }
