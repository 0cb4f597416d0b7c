package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Guard says which addresses may be connected to, where whoever names a service is not
// whoever's network is used. It looks at the address of each connection, after names
// were resolved: no name gets around it.
type Guard struct {
	// Allow are addresses that may be connected to although they are among those that are
	// refused otherwise; Refuse are further ones that may not, and win over Allow.
	Allow, Refuse []netip.Prefix
	// Servers are single ports that are not a bucket's, such as the API server's.
	Servers []netip.AddrPort
	// Authorities are whose certificates are believed. Default: the system's.
	Authorities *x509.CertPool
	// Own are the addresses of this machine. Default: those of its interfaces.
	Own func() ([]netip.Addr, error)
}

// ErrAddress is wrapped by the errors of connections that a guard refuses.
var ErrAddress = errors.New("no bucket is looked for there")

// reserved are addresses behind which there is nobody's bucket, and why.
var reserved = []struct {
	netip.Prefix
	why string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	// By which machines learn from their cloud who they are.
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata of a cloud"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata of a cloud"},
	{netip.MustParsePrefix("192.0.0.0/24"), "metadata of a cloud"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata of a cloud"},
	{netip.MustParsePrefix("fd20:ce::/32"), "metadata of a cloud"},
	// Whose last part is another address, in ways of one's own.
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated"},
	{netip.MustParsePrefix("2001::/32"), "translated"},
}

// within finds the IPv4 address that an IPv6 address stands for, if it does.
var within = []struct {
	netip.Prefix
	at int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// plain is what an address comes to.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.IsUnspecified() || a.IsLoopback() {
		return a
	}
	for _, w := range within {
		if w.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[w.at : w.at+4]))
		}
	}
	return a
}

// why says why an address is refused that nobody has allowed; empty: it is not.
func why(a netip.Addr) string {
	switch {
	case a.IsUnspecified(), a.IsLoopback():
		return "this machine"
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.IsMulticast():
		return "multicast"
	}
	for _, r := range reserved {
		if r.Contains(a) {
			return r.why
		}
	}
	return ""
}

// Check says why nothing is sent to an address; nil: it may be.
func (g *Guard) Check(to netip.AddrPort) error {
	a := plain(to.Addr())
	contains := func(p netip.Prefix) bool { return p.Contains(a) || p.Contains(to.Addr().Unmap().WithZone("")) }
	switch {
	case slices.ContainsFunc(g.Refuse, contains):
		return fmt.Errorf("%w: %s is among the addresses that this installation refuses (pipelines.egress.refuse)", ErrAddress, to.Addr())
	case slices.Contains(g.Servers, netip.AddrPortFrom(a, to.Port())):
		return fmt.Errorf("%w: %s is the API server", ErrAddress, to)
	case slices.ContainsFunc(g.Allow, contains):
		return nil
	}
	says := why(a)
	if says == "" {
		own, err := g.own()
		if err != nil {
			return fmt.Errorf("reading this machine's addresses: %w", err)
		}
		if slices.Contains(own, a) {
			says = "this machine"
		}
	}
	if says == "" {
		return nil
	}
	return fmt.Errorf("%w: %s is %s: name another service in %s, or have the installation allow it (pipelines.egress.allow)", ErrAddress, to.Addr(), says, KeyEndpoint)
}

func (g *Guard) own() ([]netip.Addr, error) {
	if g.Own != nil {
		return g.Own()
	}
	list, err := net.InterfaceAddrs()
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, err
}

const (
	// dialing is how long a connection may take to come about, and answering how long
	// the head of an answer may, apart from one about a file that is made of its parts.
	dialing   = 10 * time.Second
	answering = time.Minute
	// mostHead and mostBody are how much of an answer is read: to what is copied, a
	// bucket has little to say.
	mostHead = 64 << 10
	mostBody = 1 << 20
	// connections is how many stay open that nobody uses.
	connections = 32
)

// Transport connects to what the guard lets pass, directly: a proxy would connect to
// what nobody has looked at. It reads no more of an answer than a bucket has to say.
func (g *Guard) Transport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: dialing, KeepAlive: 30 * time.Second, ControlContext: g.control}
	usual := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialing, ResponseHeaderTimeout: answering, ExpectContinueTimeout: time.Second,
		MaxResponseHeaderBytes: mostHead, MaxIdleConns: connections, IdleConnTimeout: dialing, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: g.Authorities},
	}
	patient := usual.Clone()
	patient.ResponseHeaderTimeout = assembling
	return brief{usual, patient}
}

// control is asked before each connection, when its address is known.
func (g *Guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading where a connection goes: %w", err)
	}
	return g.Check(to)
}

// brief cuts the bodies of answers, and leaves out what is no bucket's: of others than
// buckets, whoever has named them is to learn nothing.
type brief struct {
	usual http.RoundTripper
	// patient is for files that are made of their parts.
	patient http.RoundTripper
}

// of is what carries a request.
func (b brief) of(r *http.Request) http.RoundTripper {
	if assembles(r) {
		return b.patient
	}
	return b.usual
}

// RoundTrip implements [http.RoundTripper].
func (b brief) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.of(r).RoundTrip(r)
	if err != nil {
		return response, err
	}
	body := io.LimitReader(response.Body, mostBody)
	if response.StatusCode/100 != 2 && !strings.Contains(response.Header.Get("Content-Type"), "xml") {
		body = http.NoBody
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
	return response, nil
}
