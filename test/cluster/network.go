package cluster

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/test/cluster/wire"
)

// Addresses of Services are seen within a cluster alone, so that all clusters
// have the same. Those of machines and pods are seen by the host, too.
const (
	services    = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
	securePort  = 6443
	kubeletPort = 10250
	// The second bytes that are tried, in this order.
	firstSite, lastSite = 100, 199
)

// site is the second byte of a cluster's addresses: 10.<site>.0.0/24 are those
// of the host and of machines, 10.<site>.<number>.0/24 those of a node's pods.
type site int

func (s site) link() string           { return fmt.Sprintf("muster-c%d", int(s)) }
func (s site) host() string           { return fmt.Sprintf("10.%d.0.1", int(s)) }
func (s site) control() string        { return fmt.Sprintf("10.%d.0.2", int(s)) }
func (s site) node(number int) string { return fmt.Sprintf("10.%d.0.%d", int(s), 10+number) }
func (s site) pods(number int) string { return fmt.Sprintf("10.%d.%d.0/24", int(s), number) }
func (s site) cidr() string           { return fmt.Sprintf("10.%d.0.0/16", int(s)) }

// settle links the host with the control plane's machine, at a site that
// nothing on the host uses. The link's name is what two clusters that start at
// once contend for.
func settle(control *machine) (site, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return 0, fmt.Errorf("reading the host's routes: %w", err)
	}
	for s := site(firstSite); s <= lastSite; s++ {
		if taken(s, routes) {
			continue
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = s.link()
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "host", PeerNamespace: netlink.NsPid(control.pid())})
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("linking the host with the control plane: %w", err)
		}
		return s, s.linkUp(control)
	}
	return 0, fmt.Errorf("no address is free for a cluster: each of 10.%d.0.0/16 to 10.%d.0.0/16 is routed somewhere on this machine", firstSite, lastSite)
}

func taken(s site, routes []netlink.Route) bool {
	_, want, err := net.ParseCIDR(s.cidr())
	if err != nil {
		return true
	}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		if ones, _ := route.Dst.Mask.Size(); ones > 0 && (route.Dst.Contains(want.IP) || want.Contains(route.Dst.IP)) {
			return true
		}
	}
	return false
}

func (s site) linkUp(control *machine) error {
	link, err := netlink.LinkByName(s.link())
	if err != nil {
		return fmt.Errorf("looking for the link %s: %w", s.link(), err)
	}
	address, err := netlink.ParseAddr(s.host() + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("giving %s an address: %w", s.link(), err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing %s up: %w", s.link(), err)
	}
	if err := control.order(wire.Order{Bridge: &wire.Bridge{Name: "hub", Address: s.control() + "/24"}}); err != nil {
		return err
	}
	return control.order(wire.Order{Link: &wire.Link{Name: "host", Master: "hub"}})
}

// unlink removes the host's end of a cluster's link at once; the kernel would,
// a little after the machine's end.
func (s site) unlink() error {
	link, err := netlink.LinkByName(s.link())
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the link %s: %w", s.link(), err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing the link %s: %w", s.link(), err)
	}
	return nil
}

// join links a node's machine with the control plane's, and tells every
// machine where whose pods are.
func (s site) join(control *machine, nodes []*Node) error {
	for _, node := range nodes {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Namespace = fmt.Sprintf("node%d", node.number), netlink.NsPid(control.pid())
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsPid(node.machine.pid())}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("linking %s with the control plane: %w", node.Name, err)
		}
		if err := control.order(wire.Order{Link: &wire.Link{Name: attrs.Name, Master: "hub"}}); err != nil {
			return err
		}
		// Nothing is behind the default route; but without one a process on
		// the node cannot even try to reach a Service.
		routes := s.routes(nodes, node)
		routes["default"] = s.control()
		if err := node.machine.order(wire.Order{Link: &wire.Link{Name: "eth0", Address: node.Address + "/24", Routes: routes}}); err != nil {
			return err
		}
	}
	if err := control.order(wire.Order{Link: &wire.Link{Name: "hub", Routes: s.routes(nodes, nil)}}); err != nil {
		return err
	}
	return s.routeFromHost(nodes)
}

// routeFromHost lets this machine and pods reach one another; the routes go
// with the link.
func (s site) routeFromHost(nodes []*Node) error {
	link, err := netlink.LinkByName(s.link())
	if err != nil {
		return fmt.Errorf("looking for the link %s: %w", s.link(), err)
	}
	for _, node := range nodes {
		_, pods, err := net.ParseCIDR(s.pods(node.number))
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: pods, Gw: net.ParseIP(node.Address)}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("routing to the pods of %s: %w", node.Name, err)
		}
	}
	return nil
}

// routes lead to the pods of all nodes but one.
func (s site) routes(nodes []*Node, but *Node) map[string]string {
	routes := map[string]string{}
	for _, node := range nodes {
		if node != but {
			routes[s.pods(node.number)] = node.Address
		}
	}
	return routes
}
