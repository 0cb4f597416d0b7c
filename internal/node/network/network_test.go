package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/muster-dev/muster/internal/claim"
)

func TestAvailable(t *testing.T) {
	machine(t)
	if ok, reason := Available(); !ok {
		t.Error(reason)
	}
	if _, err := netlink.LinkByName("muster0"); err == nil {
		t.Error("it left a bridge on the machine")
	}
}

// bridgeNetfilter runs a test with and without bridge-nf-call-iptables, where
// the kernel has it: container engines switch it on.
func bridgeNetfilter(t *testing.T, f func(t *testing.T)) {
	const name = "bridge/bridge-nf-call-iptables"
	before, err := getSysctl(name)
	if err != nil {
		t.Run("without bridge netfilter", f)
		return
	}
	t.Cleanup(func() { _ = setSysctl(name, before) })
	for _, value := range []string{"0", "1"} {
		t.Run("bridge-nf-call-iptables="+value, func(t *testing.T) {
			if err := setSysctl(name, value); err != nil {
				t.Fatal(err)
			}
			f(t)
		})
	}
}

func TestPods(t *testing.T) {
	bridgeNetfilter(t, func(t *testing.T) {
		n := open(t, testOptions(t))
		a, b := add(t, n, "a"), add(t, n, "b")
		serve(t, a.NetNS, "0.0.0.0:2222", "a")
		serve(t, b.NetNS, "0.0.0.0:2222", "b")
		onMachine := serve(t, "", "0.0.0.0:0", "machine")

		says(t, a.NetNS, fmt.Sprint(b.IP, ":2222"), "b "+a.IP.String())
		says(t, b.NetNS, fmt.Sprint(a.IP, ":2222"), "a "+b.IP.String())
		says(t, a.NetNS, fmt.Sprint(a.IP, ":2222"), "a "+a.IP.String())
		says(t, a.NetNS, "127.0.0.1:2222", "a 127.0.0.1")
		says(t, "", fmt.Sprint(a.IP, ":2222"), "a "+n.Gateway().String())
		says(t, a.NetNS, fmt.Sprint(n.Gateway(), ":", onMachine.Port()), "machine "+a.IP.String())
		refuses(t, a.NetNS, fmt.Sprint(b.IP, ":2223"))
	})
}

func TestAddPodTwice(t *testing.T) {
	n := open(t, testOptions(t))
	var wg sync.WaitGroup
	pods := make([]Pod, 8)
	for i := range pods {
		wg.Go(func() { pods[i], _ = n.AddPod("one", Tenant{}) })
	}
	wg.Wait()
	for _, p := range pods {
		if p != pods[0] || !p.IP.IsValid() {
			t.Fatalf("one pod has the places %v and %v", pods[0], p)
		}
	}
	if got := n.Pods(); len(got) != 1 {
		t.Errorf("there are %v; want one pod", got)
	}
}

func TestAddPodRefusesNames(t *testing.T) {
	n := open(t, testOptions(t))
	for _, uid := range []string{"", "a/b", "..", "a b", strings.Repeat("x", 201)} {
		if _, err := n.AddPod(uid, Tenant{}); err == nil {
			t.Errorf("AddPod(%q) worked", uid)
		}
	}
}

func TestRemovePod(t *testing.T) {
	n := open(t, testOptions(t))
	a := add(t, n, "a")
	for range 2 {
		if err := n.RemovePod("a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(a.NetNS); err == nil {
		t.Error("the namespace is still there")
	}
	if _, err := netlink.LinkByName(n.linkName("a")); err == nil {
		t.Error("the link is still there")
	}
	if b := add(t, n, "a"); b.IP == a.IP {
		t.Errorf("the address %v was given again at once", a.IP)
	}
}

func TestAddressesRunOut(t *testing.T) {
	options := testOptions(t)
	options.PodCIDR = netip.MustParsePrefix("10.99.0.0/30")
	n := open(t, options)
	add(t, n, "a")
	if _, err := n.AddPod("b", Tenant{}); err == nil || !strings.Contains(err.Error(), "no address is free in 10.99.0.0/30") {
		t.Errorf("a second pod in a /30 gave %v", err)
	}
	if err := n.RemovePod("a"); err != nil {
		t.Fatal(err)
	}
	add(t, n, "b")
}

func TestServices(t *testing.T) {
	bridgeNetfilter(t, func(t *testing.T) {
		n := open(t, testOptions(t))
		a, b, c := add(t, n, "a"), add(t, n, "b"), add(t, n, "c")
		for _, p := range []Pod{a, b} {
			serve(t, p.NetNS, "0.0.0.0:8080", p.UID)
		}
		port := func(p Pod) netip.AddrPort { return netip.AddrPortFrom(p.IP, 8080) }
		services := []Service{
			{ClusterIP: netip.MustParseAddr("10.200.0.10"), Ports: []ServicePort{{Port: 80, Backends: []netip.AddrPort{port(a), port(b)}}}},
			{ClusterIP: netip.MustParseAddr("10.200.0.11"), Ports: []ServicePort{{Port: 80, NodePort: 30080, Backends: []netip.AddrPort{port(a)}}, {Port: 81}}},
		}
		if err := n.SetServices(services); err != nil {
			t.Fatal(err)
		}
		// Two back-ends, from a third pod, from one of them and from the machine.
		for _, from := range []string{c.NetNS, a.NetNS, ""} {
			seen := map[string]int{}
			for range 40 {
				said, err := ask(from, "10.200.0.10:80")
				if err != nil {
					t.Fatalf("asking the service from %q: %v", from, err)
				}
				seen[strings.Fields(said)[0]]++
			}
			if seen["a"] < 5 || seen["b"] < 5 || seen["a"]+seen["b"] != 40 {
				t.Errorf("40 connections from %q went to %v", from, seen)
			}
		}
		says(t, c.NetNS, "10.200.0.11:80", "a "+c.IP.String())
		says(t, a.NetNS, "10.200.0.11:80", "a "+n.Gateway().String()) // to itself
		says(t, "", "10.200.0.11:80", "a "+n.Gateway().String())
		says(t, "", "127.0.0.1:30080", "a "+n.Gateway().String())
		says(t, c.NetNS, fmt.Sprint(n.Gateway(), ":30080"), "a "+c.IP.String())
		for _, from := range []string{c.NetNS, ""} {
			refuses(t, from, "10.200.0.11:81") // no back-end
			refuses(t, from, "10.200.0.11:82") // no such port
			refuses(t, from, "10.200.0.99:80") // no such service
		}
		// One step to the next state.
		services[0].Ports[0].Backends = nil
		if err := n.SetServices(services); err != nil {
			t.Fatal(err)
		}
		refuses(t, c.NetNS, "10.200.0.10:80")
		says(t, c.NetNS, "10.200.0.11:80", "a")
	})
}

func TestServicesRefused(t *testing.T) {
	n := open(t, testOptions(t))
	a := add(t, n, "a")
	serve(t, a.NetNS, "0.0.0.0:8080", "a")
	good := Service{ClusterIP: netip.MustParseAddr("10.200.0.10"), Ports: []ServicePort{{Port: 80, Backends: []netip.AddrPort{netip.AddrPortFrom(a.IP, 8080)}}}}
	if err := n.SetServices([]Service{good}); err != nil {
		t.Fatal(err)
	}
	if err := n.SetServices([]Service{good, good}); err == nil {
		t.Error("the same service twice was taken")
	}
	says(t, "", "10.200.0.10:80", "a")
}

func TestUDPService(t *testing.T) {
	n := open(t, testOptions(t))
	a, b, c := add(t, n, "a"), add(t, n, "b"), add(t, n, "c")
	serveUDP(t, a.NetNS, "0.0.0.0:53", "a")
	serveUDP(t, b.NetNS, "0.0.0.0:53", "b")
	service := func(p Pod) []Service {
		return []Service{{ClusterIP: netip.MustParseAddr("10.200.0.53"),
			Ports: []ServicePort{{Port: 5353, Protocol: UDP, Backends: []netip.AddrPort{netip.AddrPortFrom(p.IP, 53)}}}}}
	}
	inside(t, c.NetNS, func() error {
		conn, err := dialUDP("10.200.0.53:5353")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		// The same flow changes its back-end when the first one goes.
		for _, p := range []Pod{a, b} {
			if err := n.SetServices(service(p)); err != nil {
				return err
			}
			said, err := exchange(conn)
			if err != nil {
				return err
			}
			if said != p.UID {
				return fmt.Errorf("the service of %s said %q", p.UID, said)
			}
		}
		return nil
	})
}

func TestAPIServer(t *testing.T) {
	bridgeNetfilter(t, func(t *testing.T) {
		options := testOptions(t)
		options.APIServer = serve(t, "", "127.0.0.1:0", "api")
		other := serve(t, "", "127.0.0.1:0", "other")
		n := open(t, options)
		a := add(t, n, "a")
		says(t, a.NetNS, "10.200.0.1:443", "api "+a.IP.String())
		says(t, "", "10.200.0.1:443", "api")
		refuses(t, a.NetNS, "10.200.0.1:444")
		// The service of that name, which has no back-ends pods could reach,
		// does not hide it.
		if err := n.SetServices([]Service{{ClusterIP: netip.MustParseAddr("10.200.0.1"), Ports: []ServicePort{{Port: 443}}}}); err != nil {
			t.Fatal(err)
		}
		says(t, a.NetNS, "10.200.0.1:443", "api")

		// Nothing else on the machine's loopback is reachable, even for a pod
		// that routes its own loopback addresses to the gateway.
		inside(t, a.NetNS, func() error {
			return routeLoopback(n)
		})
		oneWay(t, a.NetNS)
		unreachable(t, a.NetNS, other.String())
		unreachable(t, a.NetNS, options.APIServer.String())
		refuses(t, a.NetNS, fmt.Sprint(n.Gateway(), ":", other.Port()))
	})
}

// TestLocalBackend: pods reach one listener on the machine's loopback as a service, and nothing
// else there. The route ends with the listening process, and a later process does not take over an
// earlier one's.
func TestLocalBackend(t *testing.T) {
	options := testOptions(t)
	s3, other := serve(t, "", "127.0.0.1:0", "s3"), serve(t, "", "127.0.0.1:0", "other")
	n, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	a := add(t, n, "a")
	gateway := Service{ClusterIP: netip.MustParseAddr("10.200.0.7"), Ports: []ServicePort{{Port: 6480, NodePort: 30480, Local: s3}}}
	if err := n.SetServices([]Service{gateway}); err != nil {
		t.Fatal(err)
	}
	says(t, a.NetNS, "10.200.0.7:6480", "s3 "+a.IP.String())
	refuses(t, a.NetNS, "10.200.0.7:6481")
	refuses(t, a.NetNS, fmt.Sprint(n.Gateway(), ":30480"))
	unreachable(t, a.NetNS, s3.String())
	unreachable(t, a.NetNS, other.String())
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	refuses(t, a.NetNS, "10.200.0.7:6480")
	n = open(t, options)
	refuses(t, a.NetNS, "10.200.0.7:6480")
	if err := n.SetServices([]Service{gateway}); err != nil {
		t.Fatal(err)
	}
	says(t, a.NetNS, "10.200.0.7:6480", "s3 "+a.IP.String())
}

func TestRestart(t *testing.T) {
	options := testOptions(t)
	api := serve(t, "", "127.0.0.1:0", "api")
	options.APIServer = api
	first, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	a, b := add(t, first, "a"), add(t, first, "b")
	serve(t, a.NetNS, "0.0.0.0:8080", "a")
	services := []Service{{ClusterIP: netip.MustParseAddr("10.200.0.10"), Ports: []ServicePort{{Port: 80, Backends: []netip.AddrPort{netip.AddrPortFrom(a.IP, 8080)}}}}}
	if err := first.SetServices(services); err != nil {
		t.Fatal(err)
	}
	// A connection that is open over the restart.
	held := hold(t, b.NetNS, a)
	// What a kill in the middle of AddPod leaves: a namespace without a link,
	// and a link without a mark.
	halfNamespace := first.namespacePath("half")
	if err := inNewNamespace(func(ns *namespace) error {
		if err := ns.keep(halfNamespace); err != nil {
			return err
		}
		_, err := first.connect(ns, Pod{UID: "half", NetNS: halfNamespace, IP: first.Gateway().Next().Next().Next()})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// A kill runs nothing; Close does no more than let go of the handles.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(t, options)
	if second.Bridge() != first.Bridge() || second.PodCIDR() != first.PodCIDR() {
		t.Errorf("the network was %s %v and is %s %v", first.Bridge(), first.PodCIDR(), second.Bridge(), second.PodCIDR())
	}
	if diff := cmp.Diff([]Pod{a, b}, second.Pods(), cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); diff != "" {
		t.Errorf("pods after the restart (-want +got):\n%s", diff)
	}
	if again := add(t, second, "a"); again != a {
		t.Errorf("the pod %v became %v", a, again)
	}
	if c := add(t, second, "c"); c.IP == a.IP || c.IP == b.IP {
		t.Errorf("a new pod got the address %v of another", c.IP)
	}
	says(t, b.NetNS, "10.200.0.10:80", "a "+b.IP.String())
	says(t, b.NetNS, "10.200.0.1:443", "api")
	if _, err := os.Stat(halfNamespace); err == nil {
		t.Error("the namespace that was never finished is still there")
	}
	if _, err := netlink.LinkByName(second.linkName("half")); err == nil {
		t.Error("the link that was never finished is still there")
	}
	if err := held(); err != nil {
		t.Errorf("a connection that was open over the restart: %v", err)
	}
}

func TestRestartWithAnotherRange(t *testing.T) {
	options := testOptions(t)
	first, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	a, b := add(t, first, "a"), add(t, first, "b")
	serve(t, a.NetNS, "0.0.0.0:8080", "a")
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(soon, options); !errors.Is(err, claim.ErrHeld) {
		t.Errorf("opening a network that is open gave %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	options.PodCIDR = netip.MustParsePrefix("10.33.0.0/16")
	if _, err := Open(t.Context(), options); err == nil || !strings.Contains(err.Error(), "is not in 10.33.0.0/16") {
		t.Errorf("another range under living pods gave %v", err)
	}
	says(t, b.NetNS, fmt.Sprint(a.IP, ":8080"), "a")
	// Without what it remembers, it finds the range on the bridge.
	if err := os.RemoveAll(options.StateDir); err != nil {
		t.Fatal(err)
	}
	options.PodCIDR = netip.Prefix{}
	second := open(t, options)
	if second.PodCIDR() != first.PodCIDR() || len(second.Pods()) != 2 {
		t.Errorf("the range %v became %v, with the pods %v", first.PodCIDR(), second.PodCIDR(), second.Pods())
	}
}

func TestTwoNetworks(t *testing.T) {
	one, two := open(t, testOptions(t)), testOptions(t)
	two.ServiceCIDR = netip.MustParsePrefix("10.201.0.0/16")
	other := open(t, two)
	if one.Bridge() == other.Bridge() || one.PodCIDR().Overlaps(other.PodCIDR()) {
		t.Errorf("two networks are %s %v and %s %v", one.Bridge(), one.PodCIDR(), other.Bridge(), other.PodCIDR())
	}
	a, b := add(t, one, "same"), add(t, other, "same")
	serve(t, b.NetNS, "0.0.0.0:8080", "b")
	says(t, "", fmt.Sprint(b.IP, ":8080"), "b")
	unreachable(t, a.NetNS, fmt.Sprint(b.IP, ":8080"))

	third := testOptions(t)
	third.ServiceCIDR = netip.MustParsePrefix("10.202.0.0/16")
	third.Bridge = one.Bridge()
	if _, err := Open(t.Context(), third); err == nil || !strings.Contains(err.Error(), "is not this network's") {
		t.Errorf("taking over another network's bridge gave %v", err)
	}
}

// A range of services that the machine uses already is refused, and who has it
// is said.
func TestServiceRangeIsOccupied(t *testing.T) {
	machine(t)
	first := testOptions(t)
	open(t, first)
	options := testOptions(t)
	options.Bridge, options.ServiceCIDR = "", first.ServiceCIDR
	n, err := Open(t.Context(), options)
	var occupied *OccupiedError
	if !errors.As(err, &occupied) || !occupied.Other || occupied.StateDir != first.StateDir || occupied.Range != first.ServiceCIDR {
		t.Fatalf("opened %v, error %v", n, err)
	}
	options.ServiceCIDR = netip.MustParsePrefix("10.77.0.0/16")
	vpn := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "vpn0"}}
	if err := errors.Join(netlink.LinkAdd(vpn), netlink.LinkSetUp(vpn)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(vpn) })
	route := &netlink.Route{LinkIndex: vpn.Index, Dst: ipNet(netip.MustParsePrefix("10.76.0.0/14")), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), options); !errors.As(err, &occupied) || occupied.Interface != "vpn0" || occupied.Other {
		t.Errorf("error %v", err)
	}
}

func TestDestroy(t *testing.T) {
	before := machineState(t)
	n := open(t, testOptions(t))
	add(t, n, "a")
	if err := n.Destroy(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, machineState(t)); diff != "" {
		t.Errorf("the machine before and after (-before +after):\n%s", diff)
	}
}

func TestHundredPodsAtOnce(t *testing.T) {
	n := open(t, testOptions(t))
	start := time.Now()
	addMany(t, n, 100)
	t.Logf("100 pods in %v", time.Since(start))
	seen := map[netip.Addr]bool{}
	for _, p := range n.Pods() {
		seen[p.IP] = true
	}
	if len(seen) != 100 {
		t.Errorf("100 pods have %d addresses", len(seen))
	}
}

func addMany(t testing.TB, n *Network, count int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			if _, err := n.AddPod(fmt.Sprintf("pod-%d", i), Tenant{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkAddPod(b *testing.B) {
	n := open(b, testOptions(b))
	for i := 0; b.Loop(); i++ {
		uid := fmt.Sprint(i)
		add(b, n, uid)
		b.StopTimer()
		if err := n.RemovePod(uid); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkHundredPods(b *testing.B) {
	n := open(b, testOptions(b))
	for b.Loop() {
		addMany(b, n, 100)
		b.StopTimer()
		var wg sync.WaitGroup
		for _, p := range n.Pods() {
			wg.Go(func() {
				if err := n.RemovePod(p.UID); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		b.StartTimer()
	}
}

func BenchmarkSetServices(b *testing.B) {
	n := open(b, testOptions(b))
	var services []Service
	for i := range 1000 {
		services = append(services, Service{ClusterIP: netip.AddrFrom4([4]byte{10, 200, byte(1 + i/250), byte(i % 250)}),
			Ports: []ServicePort{{Port: 80, Backends: []netip.AddrPort{
				netip.AddrPortFrom(n.Gateway().Next(), uint16(1000+i)), netip.AddrPortFrom(n.Gateway().Next(), uint16(3000+i))}}}})
	}
	for i := 0; b.Loop(); i++ {
		services[0].Ports[0].Port = uint16(81 + i%1000)
		if err := n.SetServices(services); err != nil {
			b.Fatal(err)
		}
	}
}
