package network

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// addresses gives out the addresses of a range, in turn, so that one just
// given back is the last to be given again: whoever still has it in mind finds
// nobody there, rather than somebody else.
type addresses struct {
	prefix netip.Prefix
	used   map[netip.Addr]bool
	last   netip.Addr
}

// newAddresses starts behind the range's first address, the gateway.
func newAddresses(prefix netip.Prefix) *addresses {
	prefix = prefix.Masked()
	return &addresses{prefix: prefix, used: map[netip.Addr]bool{}, last: prefix.Addr().Next()}
}

func (a *addresses) gateway() netip.Addr { return a.prefix.Addr().Next() }

// take gives a free address, or an error if there is none.
func (a *addresses) take() (netip.Addr, error) {
	first, final := a.gateway().Next(), lastAddr(a.prefix)
	for addr, turned := a.last.Next(), false; ; addr = addr.Next() {
		if !addr.Less(final) || !a.prefix.Contains(addr) {
			if turned {
				return netip.Addr{}, fmt.Errorf("no address is free in %v: all %d are taken", a.prefix, len(a.used))
			}
			addr, turned = first, true
		}
		if !a.used[addr] {
			a.used[addr], a.last = true, addr
			return addr, nil
		}
	}
}

// claim marks an address as used. It says false if it was, or is out of range.
func (a *addresses) claim(addr netip.Addr) bool {
	if !a.prefix.Contains(addr) || addr == a.gateway() || a.used[addr] {
		return false
	}
	a.used[addr] = true
	if a.last.Less(addr) {
		a.last = addr
	}
	return true
}

func (a *addresses) give(addr netip.Addr) { delete(a.used, addr) }

// lastAddr is the highest address of an IPv4 range, which is its broadcast
// address and not given out.
func lastAddr(p netip.Prefix) netip.Addr {
	base := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(base[:]) | (1<<(32-p.Bits()) - 1)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// FreePrefix finds an IPv4 range with that many bits, 16 to 28, in
// 10.0.0.0/8 that the machine does not use: it overlaps none of its addresses,
// routes and name servers, and none of the ranges to avoid.
func FreePrefix(ctx context.Context, bits int, avoid ...netip.Prefix) (netip.Prefix, error) {
	if bits < 16 || bits > 28 {
		return netip.Prefix{}, fmt.Errorf("finding a free address range: /%d was asked for; /16 to /28 are possible", bits)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("finding a free address range: opening a netlink socket: %w", err)
	}
	defer handle.Close()
	used, err := usedPrefixes(handle, -1)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("finding a free address range: %w", err)
	}
	used = append(used, avoid...)
	// The low second bytes are what people choose by hand, so they come last.
	for i := range 256 {
		if err := ctx.Err(); err != nil {
			return netip.Prefix{}, fmt.Errorf("finding a free address range: %w", err)
		}
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(88 + i), 0, 0}), bits)
		if _, clash := overlapping(p, used); !clash {
			return p, nil
		}
	}
	return netip.Prefix{}, errors.New("finding a free address range: every 10.x.0.0 is in use by an address or route of this machine; name one that may be used")
}

// overlapping gives the first range that overlaps p.
func overlapping(p netip.Prefix, used []netip.Prefix) (netip.Prefix, bool) {
	for _, u := range used {
		if u.Overlaps(p) {
			return u, true
		}
	}
	return netip.Prefix{}, false
}

// usedPrefixes lists the IPv4 ranges that the machine's addresses, routes and
// name servers use, except those of the interface with the index given.
func usedPrefixes(handle *netlink.Handle, except int) ([]netip.Prefix, error) {
	var used []netip.Prefix
	links, err := retried(func() ([]netlink.Addr, error) { return handle.AddrList(nil, unix.AF_INET) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range links {
		if a.LinkIndex != except {
			used = appendNet(used, a.IPNet)
		}
	}
	routes, err := retried(func() ([]netlink.Route, error) { return handle.RouteList(nil, unix.AF_INET) })
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		if r.LinkIndex != except {
			used = appendNet(used, r.Dst)
		}
	}
	for _, server := range hostNameServers("/etc/resolv.conf") {
		if a := server.Addr(); a.Is4() {
			used = append(used, netip.PrefixFrom(a, 32))
		}
	}
	return used, nil
}

// appendNet leaves out default routes, which overlap everything.
func appendNet(list []netip.Prefix, n *net.IPNet) []netip.Prefix {
	if n == nil {
		return list
	}
	ones, _ := n.Mask.Size()
	addr, ok := netip.AddrFromSlice(n.IP.To4())
	if !ok || ones == 0 {
		return list
	}
	return append(list, netip.PrefixFrom(addr, ones).Masked())
}

// retried repeats a dump that the kernel interrupted because something
// changed meanwhile.
func retried[T any](list func() ([]T, error)) ([]T, error) {
	var items []T
	var err error
	for range 10 {
		if items, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return items, err
		}
	}
	return items, err
}

// hostNameServers reads the name servers of a resolv.conf; none if it cannot
// be read.
func hostNameServers(path string) []netip.AddrPort {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var servers []netip.AddrPort
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(addr, 53))
		}
	}
	return servers
}
