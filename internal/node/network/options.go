package network

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
)

// Options says how the machine's pod network shall look.
type Options struct {
	// Bridge is the name of the bridge, at most 15 characters. Default: the
	// first of muster0, muster1, ... that is free, remembered in StateDir.
	Bridge string
	// PodCIDR is the range of pod addresses; its first address is the gateway.
	// Default: a free 10.x.0.0/16, remembered in StateDir.
	PodCIDR netip.Prefix
	// ServiceCIDR is the range of service addresses. Required. It must not
	// contain an address that the machine needs to reach (see FreePrefix).
	ServiceCIDR netip.Prefix
	// StateDir is a folder that keeps what was chosen and changed. It is also
	// the bridge's owner: another folder's bridge is never taken over.
	// Required.
	StateDir string
	// RunDir holds the pods' namespaces and must be empty after a reboot.
	// Default: /run/muster/<bridge>.
	RunDir string
	// APIServer is where the API server listens, on 127.0.0.1. Pods reach it
	// as the first address of ServiceCIDR, port 443. Zero: they do not.
	APIServer netip.AddrPort
	// Tenants keeps users of the machine to their own pods: a process reaches the pods of its user, a
	// pod those of its namespace, and root all. False: all processes reach all pods.
	Tenants bool
	// MTU is the largest packet of pods, in bytes. Default: that of the uplink,
	// or 1500.
	MTU int
}

// maxInterfaceName is the kernel's limit for the name of an interface.
const maxInterfaceName = 15

// maxBridges bounds the search for a free bridge name, and so the number of
// Musters with a pod network on one machine.
const maxBridges = 32

// check refuses options that cannot work, whatever the machine.
func (o Options) check() error {
	switch {
	case o.StateDir == "" || !filepath.IsAbs(o.StateDir):
		return fmt.Errorf("checking the network's options: StateDir is %q; it must be an absolute path", o.StateDir)
	case len(o.Bridge) > maxInterfaceName:
		return fmt.Errorf("checking the network's options: the bridge name %q has %d characters; the kernel allows %d", o.Bridge, len(o.Bridge), maxInterfaceName)
	case !o.ServiceCIDR.IsValid() || !o.ServiceCIDR.Addr().Is4() || o.ServiceCIDR.Bits() > 30:
		return fmt.Errorf("checking the network's options: ServiceCIDR is %v; it must be an IPv4 range of at least 4 addresses, such as 10.96.0.0/16", o.ServiceCIDR)
	case o.PodCIDR.IsValid() && (!o.PodCIDR.Addr().Is4() || o.PodCIDR.Bits() > 30 || o.PodCIDR.Bits() < 8):
		return fmt.Errorf("checking the network's options: PodCIDR is %v; it must be an IPv4 range between /8 and /30", o.PodCIDR)
	case o.PodCIDR.IsValid() && o.PodCIDR.Overlaps(o.ServiceCIDR):
		return fmt.Errorf("checking the network's options: PodCIDR %v and ServiceCIDR %v overlap; choose two separate ranges", o.PodCIDR, o.ServiceCIDR)
	case o.APIServer.IsValid() && (!o.APIServer.Addr().Is4() || !o.APIServer.Addr().IsLoopback()):
		return fmt.Errorf("checking the network's options: APIServer is %v; it must listen on 127.0.0.0/8", o.APIServer)
	case o.MTU < 0 || (o.MTU > 0 && o.MTU < 576):
		return fmt.Errorf("checking the network's options: MTU is %d; it must be at least 576, or 0 for the uplink's", o.MTU)
	}
	return nil
}

// errClosed is what a Network says after Close or Destroy.
var errClosed = errors.New("the network is closed")
