package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Available says whether this machine allows a pod network, and if not, what
// is missing and what would help, in a sentence. It finds out by making one in
// a network namespace that it throws away: the machine is not touched.
func Available() (ok bool, reason string) {
	err := inNewNamespace(try)
	switch {
	case err == nil:
		return true, ""
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		if os.Geteuid() != 0 {
			return false, fmt.Sprintf("a pod network needs root, and this is user %d: %v", os.Geteuid(), err)
		}
		return false, fmt.Sprintf("a pod network needs the capabilities NET_ADMIN and SYS_ADMIN, which this root does not have (a container would have to be privileged): %v", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, fmt.Sprintf("this kernel lacks a part of the pod network (modules bridge, veth, nf_tables, nft_nat, nft_masq, nft_reject, nf_conntrack): %v", err)
	case errors.Is(err, unix.EROFS):
		return false, fmt.Sprintf("the kernel's settings are read-only here, as in a container that is not privileged: %v", err)
	}
	return false, fmt.Sprintf("a pod network cannot be made here: %v", err)
}

// try makes a network with one pod and one service in the namespace, which is
// the calling thread's, and leaves it to go with the namespace.
func try(ns *namespace) (err error) {
	dir, err := os.MkdirTemp("", "muster-network-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	options := Options{Bridge: "muster0", PodCIDR: netip.MustParsePrefix("10.88.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		APIServer: netip.MustParseAddrPort("127.0.0.1:6443"), StateDir: dir, MTU: 1500}
	n := &Network{options: options, host: ns, entries: map[string]*entry{}}
	if err := n.makeBridge(); err != nil {
		return err
	}
	n.firewall = &firewall{bridge: options.Bridge, podCIDR: options.PodCIDR, serviceCIDR: options.ServiceCIDR, gateway: n.Gateway(), nsFD: ns.fd()}
	pod := Pod{UID: "pod", NetNS: filepath.Join(dir, "netns"), IP: n.Gateway().Next()}
	service := Service{ClusterIP: netip.MustParseAddr("10.96.0.10"), Ports: []ServicePort{{Port: 80, NodePort: 30080,
		Backends: []netip.AddrPort{netip.AddrPortFrom(pod.IP, 8080), netip.AddrPortFrom(pod.IP, 8081)}}}}
	list, err := compile([]Service{service}, options.ServiceCIDR, options.APIServer)
	if err != nil {
		return err
	}
	if err := n.firewall.apply(list); err != nil {
		return err
	}
	// A temporary folder may be on a file system that no namespace can be
	// mounted on; what counts is the real place, so only the mount's
	// permission is tried.
	if err := ns.keep(pod.NetNS); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := forgetNamespace(pod.NetNS); err != nil {
		return err
	}
	return inNewNamespace(func(inside *namespace) error {
		if _, err := n.connect(inside, pod); err != nil {
			return err
		}
		return n.furnish(inside.handle, pod)
	})
}
