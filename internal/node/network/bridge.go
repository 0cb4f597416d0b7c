package network

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/claim"
)

type hardwareAddr = net.HardwareAddr

// hardwareAddrOf makes a locally administered MAC address of an IPv4 one, so
// that both sides of a link know each other's without asking.
func hardwareAddrOf(addr netip.Addr) hardwareAddr {
	a := addr.As4()
	return append(slices.Clone(hardwarePrefix), a[:]...)
}

// hardwarePrefix begins the MAC addresses of bridges and pods.
var hardwarePrefix = hardwareAddr{0x0a, 0x6d}

// ownerPrefix begins the alias of a bridge; the owner's StateDir follows.
const ownerPrefix = "muster-network "

// owner is the bridge's alias. The kernel keeps 255 bytes of it.
func (n *Network) owner() string {
	alias := ownerPrefix + n.options.StateDir
	if len(alias) > 255 {
		return ownerPrefix + "#" + digest(n.options.StateDir)
	}
	return alias
}

// chooseBridge finds the name: as asked for, as remembered, or the first that
// is free.
func (n *Network) chooseBridge(ctx context.Context, remembered *state) error {
	names := []string{n.options.Bridge}
	if n.options.Bridge == "" {
		names = names[:0]
		if remembered.Bridge != "" {
			names = append(names, remembered.Bridge)
		}
		for i := range maxBridges {
			names = append(names, fmt.Sprintf("muster%d", i))
		}
	}
	var why error
	for _, name := range names {
		reason, err := n.tryBridge(name)
		for until := time.Now().Add(claimPatience); errors.Is(err, claim.ErrHeld) && time.Now().Before(until) && ctx.Err() == nil; {
			// Another may be clearing it away, as that of nobody: a matter of
			// milliseconds, after which the name is free.
			select {
			case <-ctx.Done():
			case <-time.After(claimPoll):
			}
			reason, err = n.tryBridge(name)
		}
		if err != nil {
			return fmt.Errorf("choosing the bridge: %w", err)
		}
		if reason == nil {
			n.useBridge(name, remembered)
			return nil
		}
		why = cmp.Or(why, reason)
	}
	return fmt.Errorf("choosing the bridge: %w", why)
}

const (
	// claimPatience is far beyond what removing a network takes.
	claimPatience = 5 * time.Second
	claimPoll     = 10 * time.Millisecond
)

// claimBridge takes the claim on a bridge and all that belongs to it.
func claimBridge(bridge string) (*claim.Claim, error) { return claim.Take("muster-network/" + bridge) }

// tryBridge claims a name that is free or this network's own already. The
// reason says why it is neither; claim.ErrHeld, that it is this network's own and
// another process has it open.
func (n *Network) tryBridge(name string) (reason, err error) {
	held, err := claimBridge(name)
	if err != nil && !errors.Is(err, claim.ErrHeld) {
		return nil, err
	}
	link, lookErr := n.host.handle.LinkByName(name)
	switch {
	case errors.As(lookErr, new(netlink.LinkNotFoundError)):
		// Where another has the claim, it is just making the bridge.
		n.claim = held
		return err, nil
	case lookErr != nil:
		return nil, errors.Join(fmt.Errorf("looking for the bridge %s: %w", name, lookErr), held.Release())
	}
	ours, lookErr := n.isOurs(link)
	switch {
	case lookErr != nil:
		return nil, errors.Join(fmt.Errorf("looking at the bridge %s: %w", name, lookErr), held.Release())
	case !ours:
		return fmt.Errorf("the interface %s exists and is not this network's (%s %q); choose another name for the bridge, or remove it",
			name, link.Type(), link.Attrs().Alias), held.Release()
	case err != nil && link.Attrs().Alias != "":
		return nil, err
	}
	n.claim = held
	return err, nil
}

// isOurs says whether a link is this network's bridge: one marked so, or one
// that was made here and not yet marked. The latter has this network's MAC
// prefix and no address; nobody can tell whose it is, and nobody needs it.
func (n *Network) isOurs(link netlink.Link) (bool, error) {
	attrs := link.Attrs()
	if link.Type() != "bridge" || attrs.Alias != "" {
		return link.Type() == "bridge" && attrs.Alias == n.owner(), nil
	}
	addrs, err := retried(func() ([]netlink.Addr, error) { return n.host.handle.AddrList(link, unix.AF_INET) })
	return len(addrs) == 0 && bytes.HasPrefix(attrs.HardwareAddr, hardwarePrefix), err
}

func (n *Network) useBridge(name string, remembered *state) {
	n.options.Bridge, remembered.Bridge = name, name
	if n.options.RunDir == "" {
		n.options.RunDir = defaultRunDir(name)
	}
}

// choosePodCIDR finds the range: as asked for, as remembered if it is still
// free, or a free one. It also refuses ranges that the machine uses otherwise.
func (n *Network) choosePodCIDR(ctx context.Context, remembered *state) error {
	own := -1
	if link, err := n.host.handle.LinkByName(n.options.Bridge); err == nil {
		own = link.Attrs().Index
	}
	used, err := usedPrefixes(n.host.handle, own)
	if err != nil {
		return fmt.Errorf("choosing the pods' addresses: %w", err)
	}
	if u, clash := overlapping(n.options.ServiceCIDR, used); clash {
		return n.occupied(u)
	}
	wanted := n.options.PodCIDR
	if wanted.IsValid() {
		if u, clash := overlapping(wanted, used); clash {
			return fmt.Errorf("checking the pod range %v: the machine uses %v itself; choose another range", wanted, u)
		}
		n.options.PodCIDR = wanted.Masked()
		remembered.PodCIDR = n.options.PodCIDR
		return nil
	}
	used = append(used, n.options.ServiceCIDR)
	if !remembered.PodCIDR.IsValid() {
		remembered.PodCIDR = n.bridgePrefix(own)
	}
	if _, clash := overlapping(remembered.PodCIDR, used); remembered.PodCIDR.IsValid() && !clash {
		n.options.PodCIDR = remembered.PodCIDR
		return nil
	}
	if n.options.PodCIDR, err = FreePrefix(ctx, 16, n.options.ServiceCIDR); err != nil {
		return err
	}
	remembered.PodCIDR = n.options.PodCIDR
	return nil
}

// bridgePrefix is the range that an existing bridge serves: what to fall back
// on where the folder that remembers it was emptied.
func (n *Network) bridgePrefix(index int) netip.Prefix {
	addrs, err := retried(func() ([]netlink.Addr, error) {
		return n.host.handle.AddrList(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: index}}, unix.AF_INET)
	})
	if index < 0 || err != nil || len(addrs) == 0 {
		return netip.Prefix{}
	}
	if found := appendNet(nil, addrs[0].IPNet); len(found) == 1 {
		return found[0]
	}
	return netip.Prefix{}
}

// groupBase is added to the bridge's index for the number of its group of links
// that are to go. Groups made by people are small numbers.
const groupBase = 0x6d750000

// makeBridge makes the bridge or brings the one that is there into shape.
func (n *Network) makeBridge() error {
	n.mac = hardwareAddrOf(n.Gateway())
	if n.options.MTU == 0 {
		n.options.MTU = n.uplinkMTU()
	}
	attrs := netlink.NewLinkAttrs()
	// The MAC address is fixed: left to itself, a bridge takes over that of
	// one of its ports, and changes it when that port goes.
	attrs.Name, attrs.HardwareAddr, attrs.MTU = n.options.Bridge, n.mac, n.options.MTU
	attrs.Flags = net.FlagUp
	err := n.host.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("making the bridge %s: %w", n.options.Bridge, err)
	}
	link, err := n.host.handle.LinkByName(n.options.Bridge)
	if err != nil {
		return fmt.Errorf("making the bridge %s: %w", n.options.Bridge, err)
	}
	n.bridge = link.Attrs().Index
	n.sweeper = &sweeper{handle: n.host.handle, group: groupBase + n.bridge}
	// The kernel takes no alias for a link that it is just making.
	if err := n.host.handle.LinkSetAlias(link, n.owner()); err != nil {
		return fmt.Errorf("marking the bridge %s: %w", n.options.Bridge, err)
	}
	for _, setting := range [][2]string{{"forwarding", "1"}, {"route_localnet", "1"}} {
		if err := setSysctl("ipv4/conf/"+n.options.Bridge+"/"+setting[0], setting[1]); err != nil {
			return err
		}
	}
	if err := withoutIPv6(n.options.Bridge); err != nil {
		return err
	}
	return n.addressBridge(link)
}

// addressBridge gives the bridge its address and the way to the services:
// connections from the machine to a service then come from the gateway's
// address, even where there is no default route.
func (n *Network) addressBridge(link netlink.Link) error {
	gateway := netip.PrefixFrom(n.Gateway(), n.options.PodCIDR.Bits())
	have, err := retried(func() ([]netlink.Addr, error) { return n.host.handle.AddrList(link, unix.AF_INET) })
	if err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", n.options.Bridge, err)
	}
	for _, a := range have {
		if !a.IP.Equal(gateway.Addr().AsSlice()) {
			if err := n.host.handle.AddrDel(link, &a); err != nil {
				return fmt.Errorf("removing the former address %v of %s: %w", a.IPNet, n.options.Bridge, err)
			}
		}
	}
	if err := n.host.handle.AddrReplace(link, &netlink.Addr{IPNet: ipNet(gateway)}); err != nil {
		return fmt.Errorf("giving %s the address %v: %w", n.options.Bridge, gateway, err)
	}
	if err := n.host.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("switching the bridge %s on: %w", n.options.Bridge, err)
	}
	route := &netlink.Route{LinkIndex: n.bridge, Dst: ipNet(n.options.ServiceCIDR.Masked()), Src: gateway.Addr().AsSlice(), Scope: netlink.SCOPE_LINK}
	if err := n.host.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("routing services through %s: %w", n.options.Bridge, err)
	}
	return nil
}

// removeBridge also takes along the routes and neighbours that belong to it.
func (n *Network) removeBridge() error {
	err := n.host.handle.LinkDel(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: n.bridge}})
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing the bridge %s: %w", n.options.Bridge, err)
	}
	return nil
}

// uplinks lists the interfaces of the machine's default routes.
func (n *Network) uplinks() ([]netlink.Link, error) {
	routes, err := retried(func() ([]netlink.Route, error) { return n.host.handle.RouteList(nil, unix.AF_INET) })
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	var links []netlink.Link
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones != 0 {
				continue
			}
		}
		if link, err := n.host.handle.LinkByIndex(r.LinkIndex); err == nil {
			links = append(links, link)
		}
	}
	return links, nil
}

func (n *Network) uplinkMTU() int {
	const ethernet = 1500
	links, err := n.uplinks()
	if err != nil || len(links) == 0 {
		return ethernet
	}
	return links[0].Attrs().MTU
}

// openUplinks lets answers from the world come back: the uplink must forward.
// Where it did not, it may from now on, but for pods only; its name is
// remembered and given back to be guarded. So are those that forward because
// of another network, which may go before this one.
func (n *Network) openUplinks(remembered *state) ([]string, error) {
	links, err := n.uplinks()
	if err != nil {
		return nil, err
	}
	tables, err := (&firewall{nsFD: n.host.fd()}).tables()
	if err != nil {
		return nil, err
	}
	// One that was left may have had the same bridge.
	names := slices.Clone(tables[n.options.Bridge])
	for _, link := range links {
		names = append(names, link.Attrs().Name)
	}
	for _, name := range names {
		on, err := getSysctl("ipv4/conf/" + name + "/forwarding")
		if err != nil || (on == "1" && !guards(tables, "", name)) {
			continue
		}
		// Remembered first: a crash in between must not leave the uplink open
		// and unguarded.
		if !slices.Contains(remembered.Forwarding, name) {
			remembered.Forwarding = append(remembered.Forwarding, name)
			if err := writeState(n.options.StateDir, *remembered); err != nil {
				return nil, err
			}
		}
	}
	return slices.Clone(remembered.Forwarding), nil
}

// forwardUplinks switches forwarding on for the guarded uplinks, once the rules
// that guard them are in place.
func (n *Network) forwardUplinks() {
	for _, name := range n.firewall.guarded {
		if err := setSysctl("ipv4/conf/"+name+"/forwarding", "1"); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("Pods cannot reach the world: the interface %s does not forward, and %v.", name, err))
			continue
		}
		n.notes = append(n.notes, fmt.Sprintf("Forwarding was switched on for the interface %s, for pods only (net.ipv4.conf.%s.forwarding).", name, name))
	}
}

// closeUplinks switches off again what forwardUplinks switched on.
func (n *Network) closeUplinks() error { return n.stopForwarding(n.firewall, n.firewall.guarded) }

// stopForwarding switches forwarding off for uplinks that f guarded, except
// where another network guards, and so needs, them, too.
func (n *Network) stopForwarding(f *firewall, uplinks []string) error {
	if len(uplinks) == 0 {
		return nil
	}
	tables, err := f.tables()
	errs := []error{err}
	for _, name := range uplinks {
		if guards(tables, f.bridge, name) {
			continue
		}
		if _, err := getSysctl("ipv4/conf/" + name + "/forwarding"); err != nil {
			continue
		}
		errs = append(errs, setSysctl("ipv4/conf/"+name+"/forwarding", "0"))
	}
	return errors.Join(errs...)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// parsePodAlias says whether an alias marks a pod's link, and whose. The pod has no NetNS.
func parsePodAlias(alias string) (Pod, bool) {
	rest, ok := strings.CutPrefix(alias, podPrefix)
	if !ok {
		return Pod{}, false
	}
	first, rest, ok := strings.Cut(rest, " ")
	uid, rest, _ := strings.Cut(rest, " ")
	addr, err := netip.ParseAddr(first)
	tenant, known := parseTenant(rest)
	return Pod{UID: uid, IP: addr, Tenant: tenant}, ok && err == nil && uid != "" && known
}

// podPrefix begins the alias of a pod's link; address, UID and the tenant follow.
const podPrefix = "muster-pod "

func podAlias(p Pod) string { return podPrefix + p.IP.String() + " " + p.UID + tenantAlias(p.Tenant) }
