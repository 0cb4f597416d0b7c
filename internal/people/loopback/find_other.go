//go:build !linux

package loopback

import "net/netip"

func find(netip.AddrPort, netip.AddrPort) (uint32, error) { return 0, ErrUnsupported }
