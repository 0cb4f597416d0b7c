package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func dialUDP(address string) (net.Conn, error) { return net.Dial("udp4", address) }

func exchange(conn net.Conn) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("?")); err != nil {
		return "", err
	}
	buffer := make([]byte, 64)
	n, err := conn.Read(buffer)
	return string(buffer[:n]), err
}

// hold opens a connection through the namespace to a server of its own in the
// pod, and gives a function that uses and ends it.
func hold(t *testing.T, from string, to Pod) func() error {
	t.Helper()
	var listener net.Listener
	inside(t, to.NetNS, func() (err error) {
		listener, err = net.Listen("tcp4", "0.0.0.0:9999")
		return err
	})
	t.Cleanup(func() { _ = listener.Close() })
	var near net.Conn
	inside(t, from, func() (err error) {
		near, err = net.DialTimeout("tcp4", fmt.Sprint(to.IP, ":9999"), time.Second)
		return err
	})
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		defer func() { _ = errors.Join(near.Close(), far.Close()) }()
		if _, err := far.Write([]byte("x")); err != nil {
			return err
		}
		_, err := exchange(near)
		return err
	}
}

// routeLoopback makes the calling thread's namespace send loopback addresses
// to the gateway, from its eth0: what a hostile root in a pod would do.
func routeLoopback(n *Network) error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := setSysctl("ipv4/conf/eth0/route_localnet", "1"); err != nil {
		return err
	}
	locals, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	for _, r := range locals {
		if strings.HasPrefix(r.Dst.String(), "127.") {
			if err := netlink.RouteDel(&r); err != nil {
				return err
			}
		}
	}
	source := n.Pods()[0].IP
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(loopback), Gw: n.Gateway().AsSlice(), Src: source.AsSlice()})
}

// oneWay fails if a packet from the namespace arrives on the machine's
// loopback. An answer is not needed for harm, and would be lost elsewhere.
func oneWay(t *testing.T, path string) {
	t.Helper()
	listener, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	send := func(text string) error {
		conn, err := dialUDP(listener.LocalAddr().String())
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte(text))
		return errors.Join(err, conn.Close())
	}
	inside(t, path, func() error { return send("pod") })
	// What comes first tells, without waiting for what must not come.
	if err := errors.Join(send("machine"), listener.SetReadDeadline(time.Now().Add(5*time.Second))); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 16)
	n, _, err := listener.ReadFrom(buffer)
	if got := string(buffer[:n]); err != nil || got != "machine" {
		t.Errorf("the first packet on the machine's loopback came from the %q, %v", got, err)
	}
}

// machineState lists what a network could leave behind.
func machineState(t *testing.T) map[string][]string {
	t.Helper()
	state := map[string][]string{}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		state["links"] = append(state["links"], l.Attrs().Name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		state["routes"] = append(state["routes"], r.String())
	}
	tables, err := (&nftables.Conn{}).ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		state["tables"] = append(state["tables"], table.Name)
	}
	for _, name := range []string{"ipv4/ip_forward", "ipv4/conf/all/forwarding", "ipv4/conf/default/forwarding", "ipv4/conf/lo/forwarding", "ipv4/conf/all/route_localnet"} {
		value, err := getSysctl(name)
		if err != nil {
			t.Fatal(err)
		}
		state["sysctls"] = append(state["sysctls"], name+"="+value)
	}
	return state
}

// world connects the machine to another one, its default gateway, and gives
// the other one's namespace.
func world(t *testing.T) string {
	t.Helper()
	path := neighbourMachine(t, "up0", "198.51.100.2/24", "198.51.100.1/24")
	link, err := netlink.LinkByName("up0")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.IPv4(198, 51, 100, 1)}); err != nil {
		t.Fatal(err)
	}
	return path
}

// neighbourMachine makes another machine and a cable to it.
func neighbourMachine(t *testing.T, name, here, there string) string {
	t.Helper()
	machine(t)
	path := t.TempDir() + "/" + name
	host, err := currentNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.close() })
	err = inNewNamespace(func(ns *namespace) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Flags = "eth0", net.FlagUp
		link := &netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerTxQLen: -1, PeerNamespace: netlink.NsFd(host.fd())}
		lo := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}
		return errors.Join(ns.keep(path), ns.handle.LinkAdd(link), ns.handle.LinkSetUp(lo), ns.handle.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(there))}))
	})
	if err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(netlink.LinkSetUp(link), netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(here))})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(netlink.LinkDel(link), forgetNamespace(path)); err != nil {
			t.Error(err)
		}
	})
	return path
}

func TestWorld(t *testing.T) {
	out := world(t)
	const forwarding = "ipv4/conf/up0/forwarding"
	if err := setSysctl(forwarding, "0"); err != nil {
		t.Fatal(err)
	}
	// A third machine, for which the machine forwards.
	office := neighbourMachine(t, "lan0", "203.0.113.1/24", "203.0.113.2/24")
	if err := setSysctl("ipv4/conf/lan0/forwarding", "1"); err != nil {
		t.Fatal(err)
	}
	inside(t, office, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("198.51.100.0/24")), Gw: net.IPv4(203, 0, 113, 1)})
	})
	serve(t, office, "0.0.0.0:80", "office")
	n := open(t, testOptions(t))
	a := add(t, n, "a")
	serve(t, a.NetNS, "0.0.0.0:8080", "a")
	serve(t, "", n.Gateway().String()+":8053", "gateway")
	serve(t, out, "0.0.0.0:80", "world")
	if err := n.SetServices([]Service{{ClusterIP: netip.MustParseAddr("10.200.0.10"),
		Ports: []ServicePort{{Port: 80, NodePort: 30080, Backends: []netip.AddrPort{netip.AddrPortFrom(a.IP, 8080)}}}}}); err != nil {
		t.Fatal(err)
	}
	// Pods reach the world as the machine.
	says(t, a.NetNS, "198.51.100.1:80", "world 198.51.100.2")
	if notes := strings.Join(n.Notes(), " "); !strings.Contains(notes, "interface up0") {
		t.Errorf("the notes %q do not name the uplink", notes)
	}
	// The world reaches nothing, even where it routes our ranges to us, and
	// we do not forward for it.
	inside(t, out, func() error {
		for _, p := range []netip.Prefix{n.PodCIDR(), testServices, netip.MustParsePrefix("203.0.113.0/24")} {
			if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(p), Gw: net.IPv4(198, 51, 100, 2)}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, address := range []string{fmt.Sprint(a.IP, ":8080"), fmt.Sprint(n.Gateway(), ":8053"), "10.200.0.10:80", "198.51.100.2:30080", "203.0.113.2:80"} {
		unreachable(t, out, address)
	}
	unreachable(t, office, fmt.Sprint(a.IP, ":8080"))
	if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	if value, _ := getSysctl(forwarding); value != "0" {
		t.Error("forwarding of the uplink stayed on")
	}
}

func TestWorldThatForwards(t *testing.T) {
	world(t)
	const forwarding = "ipv4/conf/up0/forwarding"
	if err := setSysctl(forwarding, "1"); err != nil {
		t.Fatal(err)
	}
	n := open(t, testOptions(t))
	if notes := n.Notes(); len(notes) != 0 {
		t.Errorf("nothing had to be changed, but: %v", notes)
	}
	if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	if value, _ := getSysctl(forwarding); value != "1" {
		t.Error("forwarding that was on before was switched off")
	}
}
