package source

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// innerError refuses an address that only this machine, or its provider's services, answer at.
type innerError struct{ address netip.Addr }

func (e *innerError) Error() string {
	return fmt.Sprintf("its server has the address %s, which is this machine's own or that of its provider's services; "+
		"use a server that other machines reach, or submit the script as a file", e.address)
}

// metadata are services of providers that give secrets to every program of a machine, at addresses
// that are not link-local: Amazon's, Alibaba's, Oracle's and Azure's.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("168.63.129.16"),
}

// translated are IPv4 addresses that a gateway of the network reaches for IPv6.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// checkAddress refuses an address of this machine alone.
func checkAddress(address netip.Addr) error {
	at := address.Unmap().WithZone("")
	if translated.Contains(at) {
		bytes := at.As16()
		at = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	inner := at.IsLoopback() || at.IsUnspecified() || at.IsLinkLocalUnicast() || at.IsMulticast()
	for _, m := range metadata {
		inner = inner || at == m
	}
	if inner {
		return &innerError{address}
	}
	return nil
}

// checkHost refuses a URL whose host is such an address, for one that a proxy would connect to.
func checkHost(u *url.URL) error {
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		return checkAddress(address)
	}
	return nil
}

// dial is how a transport connects.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialer connects to servers. Unless inner is true it refuses the addresses of this machine alone. It
// does so after the name was looked up, and for each address that is tried, so that the owner
// of a name cannot change the answer in between. The proxies of the environment are the
// administrator's choice.
func dialer(timeout time.Duration, inner bool) dial {
	open := &net.Dialer{Timeout: timeout}
	if inner {
		return open.DialContext
	}
	guarded := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("reading the server's address: %w", err)
		}
		return checkAddress(at.Addr())
	}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if isProxy(address) {
			return open.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// isProxy reports whether an address, with its port, is that of a proxy of the environment.
func isProxy(address string) bool {
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	for _, scheme := range []string{"http", "https"} {
		proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "server.invalid"}})
		if err == nil && proxy != nil && net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), ports[proxy.Scheme])) == address {
			return true
		}
	}
	return false
}
