package network

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Pod is a pod's place in the network.
type Pod struct {
	// UID is the pod's identity, as given to AddPod.
	UID string
	// NetNS is the path of its network namespace, for setns(2).
	NetNS string
	// IP is its address.
	IP netip.Addr
	// Tenant is whose it is, as given to AddPod.
	Tenant Tenant
}

// entry is a pod that is there, or on its way in or out.
type entry struct {
	pod Pod
	// mu is held while the pod is made or taken away.
	mu sync.Mutex
	// state is guarded by its own mutex, for readers that must not wait.
	stateMu sync.Mutex
	state   entryState
}

type entryState int

const (
	entryNew entryState = iota
	entryReady
	entryGone
)

func (e *entry) set(s entryState) {
	e.stateMu.Lock()
	defer e.stateMu.Unlock()
	e.state = s
}

func (e *entry) is(s entryState) bool {
	e.stateMu.Lock()
	defer e.stateMu.Unlock()
	return e.state == s
}

func (e *entry) isReady() bool { return e.is(entryReady) }

// maxUID is what fits into a link's alias and a file name beside the rest.
const maxUID = 200

func checkUID(uid string) error {
	if uid == "" || len(uid) > maxUID || strings.ContainsAny(uid, "/ \n\x00") || uid == "." || uid == ".." {
		return fmt.Errorf("the pod UID %q cannot name a network namespace: 1 to %d characters without slash and blank are possible", uid, maxUID)
	}
	return nil
}

// digest is a short name for a long one.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// linkName is the name of the bridge's end of a pod's link: 14 characters.
func (n *Network) linkName(uid string) string { return linkPrefix + digest(n.options.Bridge, uid) }

const linkPrefix = "mu"

func (n *Network) namespaces() string { return filepath.Join(n.options.RunDir, namespacesFolder) }

// namespacesFolder is in RunDir.
const namespacesFolder = "netns"

func (n *Network) namespacePath(uid string) string { return filepath.Join(n.namespaces(), uid) }

// AddPod makes the pod's namespace, with the loopback interface and eth0 in
// it, or gives those that are there: asking twice is the same as asking once. The tenant counts with
// Options.Tenants alone.
func (n *Network) AddPod(uid string, of Tenant) (Pod, error) {
	if err := errors.Join(checkUID(uid), of.check()); err != nil {
		return Pod{}, err
	}
	for {
		e, err := n.entry(uid, of)
		if err != nil {
			return Pod{}, fmt.Errorf("adding pod %s to the network: %w", uid, err)
		}
		pod, again, err := n.makeEntry(e)
		if err != nil {
			return Pod{}, fmt.Errorf("adding pod %s to the network: %w", uid, err)
		}
		if !again {
			return pod, nil
		}
	}
}

// entry finds a pod's entry, or makes one with a fresh address.
func (n *Network) entry(uid string, of Tenant) (*entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errClosed
	}
	if e := n.entries[uid]; e != nil {
		return e, nil
	}
	addr, err := n.pool.take()
	if err != nil {
		return nil, err
	}
	e := &entry{pod: Pod{UID: uid, NetNS: n.namespacePath(uid), IP: addr, Tenant: of}}
	n.entries[uid] = e
	return e, nil
}

// makeEntry makes the pod unless it is there. It says again if the pod was
// removed meanwhile.
func (n *Network) makeEntry(e *entry) (pod Pod, again bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.is(entryGone):
		return Pod{}, true, nil
	case e.isReady() && !isNamespace(e.pod.NetNS):
		return Pod{}, false, fmt.Errorf("its link is there, but no network namespace is mounted on %s; remove the pod from the network first", e.pod.NetNS)
	case e.isReady():
		return e.pod, false, nil
	}
	if err := n.build(e.pod); err != nil {
		err = errors.Join(err, n.tearDown(e.pod))
		n.forget(e)
		return Pod{}, false, err
	}
	e.set(entryReady)
	return e.pod, false, nil
}

func (n *Network) forget(e *entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.set(entryGone)
	n.pool.give(e.pod.IP)
	delete(n.entries, e.pod.UID)
}

// RemovePod takes the pod's link and namespace away. Processes that are still
// in the namespace keep it, without any link. It is no error if there is none.
func (n *Network) RemovePod(uid string) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	n.mu.Lock()
	e, closed := n.entries[uid], n.closed
	n.mu.Unlock()
	switch {
	case closed:
		return fmt.Errorf("removing pod %s from the network: %w", uid, errClosed)
	case e == nil:
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.is(entryGone) {
		return nil
	}
	if err := n.tearDown(e.pod); err != nil {
		return fmt.Errorf("removing pod %s from the network: %w", uid, err)
	}
	n.forget(e)
	return nil
}

// build makes namespace and link. The link's alias comes last: a link without
// one was never finished.
func (n *Network) build(pod Pod) error {
	if err := os.MkdirAll(n.namespaces(), 0o711); err != nil {
		return fmt.Errorf("making the folder of the network namespaces: %w", err)
	}
	return inNewNamespace(func(ns *namespace) error {
		if err := ns.keep(pod.NetNS); err != nil {
			return err
		}
		link, err := n.connect(ns, pod)
		if err != nil {
			return err
		}
		if n.senders != nil {
			if err := n.senders.admit(link.Attrs().Name, pod); err != nil {
				return err
			}
		}
		if n.tenants != nil {
			if err := n.tenants.admit(pod); err != nil {
				return err
			}
		}
		if err := n.furnish(ns.handle, pod); err != nil {
			return err
		}
		if err := n.host.handle.LinkSetAlias(link, podAlias(pod)); err != nil {
			return fmt.Errorf("marking the pod's link: %w", err)
		}
		return n.awaitCarrier(ns.handle, link)
	})
}

// awaitCarrier returns when packets pass in both directions. The kernel brings
// new links into service by and by, and drops what is sent before: a pod would
// lose its first packet, and a second with it until that is sent again.
func (n *Network) awaitCarrier(inside *netlink.Handle, link netlink.Link) error {
	deadline := time.Now().Add(carrierTimeout)
	tick := time.NewTicker(carrierPoll)
	defer tick.Stop()
	for _, end := range []struct {
		handle *netlink.Handle
		name   string
	}{{inside, podLink}, {n.host.handle, link.Attrs().Name}, {n.host.handle, n.options.Bridge}} {
		for {
			now, err := end.handle.LinkByName(end.name)
			if err != nil {
				return fmt.Errorf("looking at %s: %w", end.name, err)
			}
			if now.Attrs().OperState == netlink.OperUp {
				break
			}
			if (<-tick.C).After(deadline) {
				return fmt.Errorf("waiting for %s to come into service: it is %q after %v", end.name, now.Attrs().OperState, carrierTimeout)
			}
		}
	}
	return nil
}

const (
	// carrierTimeout is far beyond what a busy kernel takes, about a second.
	carrierTimeout = 10 * time.Second
	carrierPoll    = 200 * time.Microsecond
)

// connect makes the link between the bridge and the namespace.
func (n *Network) connect(ns *namespace, pod Pod) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Flags = n.linkName(pod.UID), n.options.MTU, net.FlagUp
	attrs.MasterIndex = n.bridge
	link := &netlink.Veth{LinkAttrs: attrs, PeerName: podLink, PeerMTU: uint32(n.options.MTU), PeerTxQLen: -1,
		PeerHardwareAddr: hardwareAddrOf(pod.IP), PeerNamespace: netlink.NsFd(ns.fd())}
	err := n.host.handle.LinkAdd(link)
	if errors.Is(err, unix.EXFULL) {
		return nil, fmt.Errorf("the bridge %s has no port left: it has 1023", n.options.Bridge)
	}
	if err != nil {
		return nil, fmt.Errorf("making the pod's link: %w", err)
	}
	if err := n.host.handle.LinkSetHairpin(link, true); err != nil {
		return nil, fmt.Errorf("letting the pod's link reflect: %w", err)
	}
	neighbour := neighbour(n.bridge, pod.IP)
	if err := n.host.handle.NeighSet(neighbour); err != nil {
		return nil, fmt.Errorf("announcing the pod's address: %w", err)
	}
	return link, nil
}

// podLink is the name of the pod's end of its link.
const podLink = "eth0"

func neighbour(link int, addr netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: link, Family: unix.AF_INET, State: netlink.NUD_PERMANENT,
		IP: addr.AsSlice(), HardwareAddr: hardwareAddrOf(addr)}
}

// furnish sets the pod's interfaces up, from inside.
func (n *Network) furnish(inside *netlink.Handle, pod Pod) error {
	const loopbackIndex = 1
	if err := inside.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: loopbackIndex}}); err != nil {
		return fmt.Errorf("switching the pod's loopback interface on: %w", err)
	}
	if err := withoutIPv6(podLink); err != nil {
		return err
	}
	// The way to another pod is by the gateway, whoever says otherwise.
	for _, name := range []string{"all", podLink} {
		if err := setSysctl("ipv4/conf/"+name+"/accept_redirects", "0"); err != nil {
			return err
		}
	}
	link, err := inside.LinkByName(podLink)
	if err != nil {
		return fmt.Errorf("looking for the pod's %s: %w", podLink, err)
	}
	index := link.Attrs().Index
	if err := inside.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(pod.IP, 32))}); err != nil {
		return fmt.Errorf("giving the pod the address %v: %w", pod.IP, err)
	}
	if err := inside.LinkSetUp(link); err != nil {
		return fmt.Errorf("switching the pod's %s on: %w", podLink, err)
	}
	if err := inside.NeighSet(neighbour(index, n.Gateway())); err != nil {
		return fmt.Errorf("introducing the gateway to the pod: %w", err)
	}
	gateway := n.Gateway().AsSlice()
	for _, route := range []*netlink.Route{
		{LinkIndex: index, Dst: ipNet(netip.PrefixFrom(n.Gateway(), 32)), Scope: netlink.SCOPE_LINK},
		{LinkIndex: index, Gw: gateway},
	} {
		if err := inside.RouteAdd(route); err != nil {
			return fmt.Errorf("routing the pod's packets: %w", err)
		}
	}
	return nil
}

// tearDown undoes build, however far it came.
func (n *Network) tearDown(pod Pod) error {
	var errs []error
	if link, err := n.host.handle.LinkByName(n.linkName(pod.UID)); err == nil {
		errs = append(errs, n.sweeper.remove(link))
	} else if !errors.As(err, new(netlink.LinkNotFoundError)) {
		errs = append(errs, fmt.Errorf("looking for the pod's link: %w", err))
	}
	if n.senders != nil {
		errs = append(errs, n.senders.forget(n.linkName(pod.UID), pod))
	}
	if n.tenants != nil {
		// The address will be another pod's, whose connections these are not.
		errs = append(errs, n.tenants.forget(pod), n.forgetFlowsTo(pod.IP))
	}
	if err := n.host.handle.NeighDel(neighbour(n.bridge, pod.IP)); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
		errs = append(errs, fmt.Errorf("withdrawing the pod's address: %w", err))
	}
	return errors.Join(append(errs, forgetNamespace(pod.NetNS))...)
}

// checkPods refuses a range that pods on the bridge are not in, before anything
// is changed that they need.
func (n *Network) checkPods() error {
	bridge, err := n.host.handle.LinkByName(n.options.Bridge)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the bridge %s: %w", n.options.Bridge, err)
	}
	links, err := retried(n.host.handle.LinkList)
	if err != nil {
		return fmt.Errorf("listing the pods' links: %w", err)
	}
	for _, link := range links {
		pod, ok := parsePodAlias(link.Attrs().Alias)
		if ok && link.Attrs().MasterIndex == bridge.Attrs().Index && !n.options.PodCIDR.Contains(pod.IP) {
			return fmt.Errorf("adopting pod %s: its address %v is not in %v; end the pods before the range is changed", pod.UID, pod.IP, n.options.PodCIDR)
		}
	}
	return nil
}

// adopt takes over the pods that an earlier process left, and clears away what
// it did not finish.
func (n *Network) adopt() error {
	links, err := retried(n.host.handle.LinkList)
	if err != nil {
		return fmt.Errorf("listing the pods' links: %w", err)
	}
	for _, link := range links {
		attrs := link.Attrs()
		pod, ok := parsePodAlias(attrs.Alias)
		finished := ok && attrs.MasterIndex == n.bridge && attrs.Name == n.linkName(pod.UID)
		switch {
		case finished && n.pool.claim(pod.IP):
			pod.NetNS = n.namespacePath(pod.UID)
			n.entries[pod.UID] = &entry{pod: pod, state: entryReady}
		case attrs.MasterIndex == n.bridge && strings.HasPrefix(attrs.Name, linkPrefix):
			if err := n.sweeper.remove(link); err != nil {
				return fmt.Errorf("clearing away the unfinished link %s: %w", attrs.Name, err)
			}
		}
	}
	files, err := os.ReadDir(n.namespaces())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("listing the pods' network namespaces: %w", err)
	}
	for _, file := range files {
		if n.entries[file.Name()] == nil {
			if err := forgetNamespace(n.namespacePath(file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
