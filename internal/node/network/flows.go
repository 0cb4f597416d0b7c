package network

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// staleFlows matches tracked UDP packets to back-ends that are gone.
type staleFlows map[frontend]map[netip.AddrPort]bool

// MatchConntrackFlow says whether the kernel shall forget the flow.
func (s staleFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP.To4())
	from, ok2 := netip.AddrFromSlice(flow.Reverse.SrcIP.To4())
	if !ok || !ok2 {
		return false
	}
	backend := netip.AddrPortFrom(from, flow.Reverse.SrcPort)
	return s[frontend{to, UDP, flow.Forward.DstPort}][backend] ||
		s[frontend{netip.IPv4Unspecified(), UDP, flow.Forward.DstPort}][backend]
}

// flowsTo matches tracked packets to an address.
type flowsTo netip.Addr

// MatchConntrackFlow says whether the kernel shall forget the flow.
func (f flowsTo) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	from, ok := netip.AddrFromSlice(flow.Reverse.SrcIP.To4())
	return ok && from == netip.Addr(f)
}

// forgetFlowsTo makes the kernel judge what is sent to an address as a new connection.
func (n *Network) forgetFlowsTo(addr netip.Addr) error {
	_, err := n.host.handle.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, flowsTo(addr))
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("forgetting flows to %v: %w", addr, err)
	}
	return nil
}

// forgetFlows makes the kernel choose a back-end anew for UDP packets that it
// sends to one that is gone.
func (n *Network) forgetFlows(gone map[frontend]map[netip.AddrPort]bool) error {
	if len(gone) == 0 {
		return nil
	}
	_, err := n.host.handle.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, staleFlows(gone))
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("forgetting UDP flows: %w", err)
	}
	return nil
}
