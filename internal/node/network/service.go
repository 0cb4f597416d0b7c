package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Protocol is a transport protocol of a service port.
type Protocol string

// The protocols of service ports.
const (
	TCP Protocol = "TCP"
	UDP Protocol = "UDP"
)

// Service is an address that stands for others. A headless service has none
// and is a matter of names alone: leave it out.
type Service struct {
	// ClusterIP is the service's address, in ServiceCIDR.
	ClusterIP netip.Addr
	// Ports are its ports.
	Ports []ServicePort
}

// ServicePort is one port of a service.
type ServicePort struct {
	// Port is the port at the service's address.
	Port uint16
	// Protocol is TCP or UDP. Default: TCP.
	Protocol Protocol
	// NodePort is the port on the machine's 127.0.0.1, and on the gateway's
	// address for pods; 0 for none. Nothing outside the machine reaches it.
	NodePort uint16
	// Backends are the ready addresses behind it, pods or other addresses that
	// are not loopback ones. Without any, connections are refused at once.
	Backends []netip.AddrPort
	// Local is a listener of this process on 127.0.0.0/8 that stands behind the port
	// instead, for pods and this machine. It has no node port, and ends with Close.
	Local netip.AddrPort
}

// frontend is what a connection is addressed to. The address is unspecified
// (0.0.0.0) for a node port.
type frontend struct {
	Addr     netip.Addr
	Protocol Protocol
	Port     uint16
}

func (f frontend) compare(g frontend) int {
	return cmp.Or(f.Addr.Compare(g.Addr), cmp.Compare(f.Protocol, g.Protocol), cmp.Compare(f.Port, g.Port))
}

// forwarding is a frontend with its back-ends, of which there is at least one.
type forwarding struct {
	frontend
	Backends []netip.AddrPort
}

// maxBackends bounds the back-ends of one port.
const maxBackends = 1024

// compile turns services into forwardings in a fixed order: the same services,
// however ordered, compile to the same list. What is refused is refused as a
// whole, so that a mistake never takes working services away.
func compile(services []Service, serviceCIDR netip.Prefix, api netip.AddrPort) ([]forwarding, error) {
	c := compiler{serviceCIDR: serviceCIDR, seen: map[frontend]bool{}}
	if api.IsValid() {
		// The API server's own service is listed without back-ends that pods
		// could reach, so this one goes first and stays.
		c.add(frontend{apiAddr(serviceCIDR), TCP, apiPort}, []netip.AddrPort{api})
	}
	for _, s := range services {
		for _, p := range s.Ports {
			if err := c.port(s.ClusterIP, p, api.IsValid()); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(c.list, func(a, b forwarding) int { return a.compare(b.frontend) })
	return c.list, nil
}

// apiPort is the port at which pods reach the API server.
const apiPort = 443

// apiAddr is the address at which pods reach the API server.
func apiAddr(serviceCIDR netip.Prefix) netip.Addr { return serviceCIDR.Masked().Addr().Next() }

type compiler struct {
	serviceCIDR netip.Prefix
	seen        map[frontend]bool
	list        []forwarding
}

func (c *compiler) port(addr netip.Addr, p ServicePort, haveAPI bool) error {
	if p.Protocol == "" {
		p.Protocol = TCP
	}
	name := fmt.Sprintf("service %v port %d/%s", addr, p.Port, p.Protocol)
	switch {
	case !c.serviceCIDR.Contains(addr):
		return fmt.Errorf("reading %s: the address is not in the service range %v", name, c.serviceCIDR)
	case p.Port == 0:
		return fmt.Errorf("reading %s: the port must be between 1 and 65535", name)
	case p.Protocol != TCP && p.Protocol != UDP:
		return fmt.Errorf("reading %s: the protocol must be TCP or UDP", name)
	case len(p.Backends) > maxBackends:
		return fmt.Errorf("reading %s: it has %d back-ends; %d are possible", name, len(p.Backends), maxBackends)
	}
	for _, b := range p.Backends {
		if !b.Addr().Is4() || b.Addr().IsLoopback() || b.Addr().IsUnspecified() || b.Port() == 0 {
			return fmt.Errorf("reading %s: the back-end %v is not an IPv4 address and port that pods can reach", name, b)
		}
	}
	if p.Local.IsValid() {
		if !p.Local.Addr().Is4() || !p.Local.Addr().IsLoopback() || p.Local.Port() == 0 {
			return fmt.Errorf("reading %s: the local back-end %v does not listen on 127.0.0.0/8", name, p.Local)
		}
		p.Backends, p.NodePort = []netip.AddrPort{p.Local}, 0
	}
	cluster := frontend{addr, p.Protocol, p.Port}
	if haveAPI && cluster == (frontend{apiAddr(c.serviceCIDR), TCP, apiPort}) {
		return nil
	}
	if !c.add(cluster, p.Backends) {
		return fmt.Errorf("reading %s: it is given twice", name)
	}
	if p.NodePort != 0 && !c.add(frontend{netip.IPv4Unspecified(), p.Protocol, p.NodePort}, p.Backends) {
		return fmt.Errorf("reading %s: its node port %d is given twice", name, p.NodePort)
	}
	return nil
}

// add says false if the frontend is there already.
func (c *compiler) add(f frontend, backends []netip.AddrPort) bool {
	if c.seen[f] {
		return false
	}
	c.seen[f] = true
	if len(backends) > 0 {
		sorted := slices.Clone(backends)
		slices.SortFunc(sorted, netip.AddrPort.Compare)
		c.list = append(c.list, forwarding{f, slices.Compact(sorted)})
	}
	return true
}

// withoutLocal are the services without their local back-ends: those end with the process.
func withoutLocal(services []Service) []Service {
	out := slices.Clone(services)
	for i := range out {
		out[i].Ports = slices.Clone(out[i].Ports)
		for j := range out[i].Ports {
			out[i].Ports[j].Local = netip.AddrPort{}
		}
	}
	return out
}

// equalForwardings compares two compiled lists.
func equalForwardings(a, b []forwarding) bool {
	return slices.EqualFunc(a, b, func(x, y forwarding) bool {
		return x.frontend == y.frontend && slices.Equal(x.Backends, y.Backends)
	})
}

// stale says which back-ends of UDP frontends are no longer behind them. TCP
// connections to such a back-end end with it; UDP has no connections, and the
// kernel would send packets there for as long as somebody sends them.
func stale(before, after []forwarding) map[frontend]map[netip.AddrPort]bool {
	now := map[frontend][]netip.AddrPort{}
	for _, f := range after {
		now[f.frontend] = f.Backends
	}
	gone := map[frontend]map[netip.AddrPort]bool{}
	for _, f := range before {
		if f.Protocol != UDP {
			continue
		}
		for _, b := range f.Backends {
			if slices.Contains(now[f.frontend], b) {
				continue
			}
			if gone[f.frontend] == nil {
				gone[f.frontend] = map[netip.AddrPort]bool{}
			}
			gone[f.frontend][b] = true
		}
	}
	return gone
}
