package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

var compareAddrs = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func TestHostsFile(t *testing.T) {
	got := string(HostsFile([]HostsEntry{
		{Addr: netip.MustParseAddr("10.88.0.2"), Names: []string{"job-worker-0.job.default.svc.cluster.local", "job-worker-0"}},
		{Addr: netip.MustParseAddr("10.88.0.3")},
		{Names: []string{"nowhere"}},
	}))
	want := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n10.88.0.2\tjob-worker-0.job.default.svc.cluster.local job-worker-0\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResolvConf(t *testing.T) {
	want := "search team.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.88.0.1\noptions ndots:5\n"
	if diff := cmp.Diff(want, string(ResolvConf("team", netip.MustParseAddr("10.88.0.1")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOptionsCheck(t *testing.T) {
	good := Options{StateDir: "/data", ServiceCIDR: testServices}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"must be an absolute path":          func(o *Options) { o.StateDir = "data" },
		"has 16 characters":                 func(o *Options) { o.Bridge = "muster-sixteen-c" },
		"ServiceCIDR is":                    func(o *Options) { o.ServiceCIDR = netip.Prefix{} },
		"between /8 and /30":                func(o *Options) { o.PodCIDR = netip.MustParsePrefix("10.0.0.0/31") },
		"overlap; choose two":               func(o *Options) { o.PodCIDR = netip.MustParsePrefix("10.0.0.0/8") },
		"it must listen on 127.0.0.0/8":     func(o *Options) { o.APIServer = netip.MustParseAddrPort("10.0.0.1:6443") },
		"at least 576, or 0 for the uplink": func(o *Options) { o.MTU = 100 },
	} {
		bad := good
		change(&bad)
		if err := bad.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gave %v; want an error with %q", bad, err, want)
		}
	}
}

func TestCompile(t *testing.T) {
	at := netip.MustParseAddrPort
	addr := netip.MustParseAddr
	web := Service{ClusterIP: addr("10.200.0.9"), Ports: []ServicePort{
		{Port: 80, NodePort: 30080, Backends: []netip.AddrPort{at("10.88.0.3:8080"), at("10.88.0.2:8080"), at("10.88.0.3:8080")}},
		{Port: 80, Protocol: UDP, Backends: []netip.AddrPort{at("10.88.0.2:53")}},
		{Port: 81},
		{Port: 82, NodePort: 30082, Local: at("127.0.0.1:6480")},
	}}
	both := []netip.AddrPort{at("10.88.0.2:8080"), at("10.88.0.3:8080")}
	want := []forwarding{
		{frontend{addr("0.0.0.0"), TCP, 30080}, both},
		{frontend{addr("10.200.0.1"), TCP, 443}, []netip.AddrPort{at("127.0.0.1:6443")}},
		{frontend{addr("10.200.0.9"), TCP, 80}, both},
		{frontend{addr("10.200.0.9"), TCP, 82}, []netip.AddrPort{at("127.0.0.1:6480")}},
		{frontend{addr("10.200.0.9"), UDP, 80}, []netip.AddrPort{at("10.88.0.2:53")}},
	}
	got, err := compile([]Service{web}, testServices, at("127.0.0.1:6443"))
	if diff := cmp.Diff(want, got, compareAddrs, cmp.AllowUnexported(forwarding{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for want, port := range map[string]ServicePort{
		"must be between 1 and 65535":         {},
		"must be TCP or UDP":                  {Port: 1, Protocol: "SCTP"},
		"not an IPv4 address and port":        {Port: 1, Backends: []netip.AddrPort{at("127.0.0.1:22")}},
		"does not listen on 127.0.0.0/8":      {Port: 1, Local: at("10.88.0.2:6480")},
		"[::1]:1 is not an IPv4 address":      {Port: 1, Backends: []netip.AddrPort{at("[::1]:1")}},
		"has 1025 back-ends; 1024 are possib": {Port: 1, Backends: make([]netip.AddrPort, 1025)},
	} {
		_, err := compile([]Service{{ClusterIP: web.ClusterIP, Ports: []ServicePort{port}}}, testServices, netip.AddrPort{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the port %+v gave %v; want an error with %q", port.Port, err, want)
		}
	}
	if _, err := compile([]Service{{ClusterIP: addr("10.1.0.1"), Ports: []ServicePort{{Port: 1}}}}, testServices, netip.AddrPort{}); err == nil {
		t.Error("an address out of the range was taken")
	}
}

func TestStale(t *testing.T) {
	at := netip.MustParseAddrPort
	udp, tcp := frontend{netip.MustParseAddr("10.200.0.9"), UDP, 53}, frontend{netip.MustParseAddr("10.200.0.9"), TCP, 53}
	before := []forwarding{{tcp, []netip.AddrPort{at("10.88.0.2:53")}}, {udp, []netip.AddrPort{at("10.88.0.2:53"), at("10.88.0.3:53")}}}
	after := []forwarding{{udp, []netip.AddrPort{at("10.88.0.3:53")}}}
	want := map[frontend]map[netip.AddrPort]bool{udp: {at("10.88.0.2:53"): true}}
	if diff := cmp.Diff(want, stale(before, after), compareAddrs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAddresses(t *testing.T) {
	pool := newAddresses(netip.MustParsePrefix("10.9.0.0/29"))
	var got []string
	for range 5 {
		addr, err := pool.take()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, addr.String())
	}
	want := []string{"10.9.0.2", "10.9.0.3", "10.9.0.4", "10.9.0.5", "10.9.0.6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := pool.take(); err == nil {
		t.Error("there was a sixth address")
	}
	pool.give(netip.MustParseAddr("10.9.0.4"))
	if addr, err := pool.take(); err != nil || addr.String() != "10.9.0.4" {
		t.Errorf("the free address 10.9.0.4 came as %v, %v", addr, err)
	}
	for _, taken := range []string{"10.9.0.1", "10.9.0.4", "10.10.0.1"} {
		if pool.claim(netip.MustParseAddr(taken)) {
			t.Errorf("%s could be claimed", taken)
		}
	}
}

func TestFreePrefix(t *testing.T) {
	machine(t)
	avoid := netip.MustParsePrefix("10.88.0.0/15")
	p, err := FreePrefix(t.Context(), 16, avoid)
	if err != nil || p.Overlaps(avoid) || p.Bits() != 16 {
		t.Errorf("the free range is %v, %v", p, err)
	}
	if _, err := FreePrefix(t.Context(), 16, netip.MustParsePrefix("10.0.0.0/8")); err == nil {
		t.Error("there was a free range although all was to be avoided")
	}
	if _, err := FreePrefix(t.Context(), 8); err == nil {
		t.Error("a /8 was found")
	}
}

func TestHostNameServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte("# a comment\nsearch x\nnameserver 10.0.0.2\nnameserver fd00::1\nnameserver what\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:53"), netip.MustParseAddrPort("[fd00::1]:53")}
	if diff := cmp.Diff(want, hostNameServers(path), compareAddrs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// names is a resolver made of a map.
type names map[string][]netip.Addr

func (n names) Lookup(_ context.Context, name string) ([]netip.Addr, bool) {
	addrs, ok := n[name]
	return addrs, ok
}

// upstream is a name server that answers every question with one address, or
// fails.
func upstream(t *testing.T, address string, rcode int) netip.AddrPort {
	t.Helper()
	d, err := ServeDNS(t.Context(), DNSOptions{Listen: netip.MustParseAddrPort("127.0.0.1:0"), Resolver: names{}})
	if err != nil {
		t.Fatal(err)
	}
	// Its place is taken by a server with another handler.
	listen := d.Addr()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var started sync.WaitGroup
	started.Add(1)
	server := &dns.Server{Addr: listen.String(), Net: "udp", NotifyStartedFunc: started.Done,
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			answer := new(dns.Msg).SetRcode(q, rcode)
			if rcode == dns.RcodeSuccess {
				rr, _ := dns.NewRR(q.Question[0].Name + " 60 A " + address)
				answer.Answer = append(answer.Answer, rr)
			}
			_ = w.WriteMsg(answer)
		})}
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	started.Wait()
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-done); err != nil {
			t.Error(err)
		}
	})
	return listen
}

func TestDNS(t *testing.T) {
	machine(t)
	var many []netip.Addr
	for i := range 100 {
		many = append(many, netip.AddrFrom4([4]byte{10, 88, 1, byte(i)}))
	}
	bad, good := upstream(t, "", dns.RcodeServerFailure), upstream(t, "203.0.113.7", dns.RcodeSuccess)
	d, err := ServeDNS(t.Context(), DNSOptions{
		Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Resolver: names{
			"web.default.svc.cluster.local":  {netip.MustParseAddr("10.200.0.10")},
			"many.default.svc.cluster.local": many,
			"none.default.svc.cluster.local": nil,
		},
		Local:     []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")},
		Upstreams: []netip.AddrPort{bad, good},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name, network, question string
		kind                    uint16
		rcode, answers          int
		first                   string
		truncated               bool
	}{
		{"a service", "udp", "web.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, 1, "10.200.0.10", false},
		{"in any case", "udp", "WEB.Default.svc.Cluster.local.", dns.TypeA, dns.RcodeSuccess, 1, "10.200.0.10", false},
		{"without the domain", "udp", "web.default.svc.", dns.TypeA, dns.RcodeSuccess, 1, "10.200.0.10", false},
		{"over TCP", "tcp", "web.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, 1, "10.200.0.10", false},
		{"its IPv6 address", "udp", "web.default.svc.cluster.local.", dns.TypeAAAA, dns.RcodeSuccess, 0, "", false},
		{"without addresses", "udp", "none.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, 0, "", false},
		{"unknown", "udp", "web.other.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, 0, "", false},
		{"a world name with a search domain", "udp", "example.com.default.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, 0, "", false},
		{"the world, second upstream", "udp", "example.com.", dns.TypeA, dns.RcodeSuccess, 1, "203.0.113.7", false},
		{"a pod's reverse name", "udp", "2.0.88.10.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, 0, "", false},
		{"localhost", "udp", "localhost.", dns.TypeA, dns.RcodeSuccess, 1, "127.0.0.1", false},
		{"too much for a packet", "udp", "many.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, -1, "", true},
		{"much over TCP", "tcp", "many.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, 100, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := &dns.Client{Net: c.network, Timeout: 3 * time.Second}
			answer, _, err := client.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(c.question, c.kind), d.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if answer.Rcode != c.rcode || (c.answers >= 0 && len(answer.Answer) != c.answers) || answer.Truncated != c.truncated {
				t.Errorf("the answer is\n%v", answer)
			}
			if c.first != "" && answer.Answer[0].(*dns.A).A.String() != c.first {
				t.Errorf("the answer is\n%v\nwant %s", answer, c.first)
			}
		})
	}
	if _, err := ServeDNS(t.Context(), DNSOptions{Listen: d.Addr(), Resolver: names{}}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a second server at the same address gave %v", err)
	}
}

// TestDNSFromPod asks where pods ask.
func TestDNSFromPod(t *testing.T) {
	n := open(t, testOptions(t))
	a := add(t, n, "a")
	d, err := ServeDNS(t.Context(), DNSOptions{Listen: netip.AddrPortFrom(n.Gateway(), 53), Upstreams: []netip.AddrPort{},
		Resolver: names{"web.default.svc.cluster.local": {a.IP}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	inside(t, a.NetNS, func() error {
		conn, err := dialUDP(d.Addr().String())
		if err != nil {
			return err
		}
		client := &dns.Client{Timeout: time.Second}
		answer, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA), &dns.Conn{Conn: conn})
		if err := errors.Join(err, conn.Close()); err != nil {
			return err
		}
		if len(answer.Answer) != 1 {
			return fmt.Errorf("the answer is %v", answer)
		}
		return nil
	})
}
