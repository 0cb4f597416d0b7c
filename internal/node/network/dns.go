package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// clusterDomain is the domain below which names are answered here.
const clusterDomain = "cluster.local"

const (
	// answerTTL is how long a pod may remember a cluster name, in seconds.
	answerTTL = 5
	// upstreamTimeout is how long one upstream may take; resolvers wait five
	// seconds for an answer.
	upstreamTimeout = 2 * time.Second
	// maxForwards bounds the questions that wait for upstreams.
	maxForwards = 256
	// hostResolvConf names the machine's own name servers.
	hostResolvConf = "/etc/resolv.conf"
)

// Resolver knows the addresses behind cluster names.
type Resolver interface {
	// Lookup gives the IPv4 addresses of a name such as
	// "web.default.svc.cluster.local": lower case, no final dot, always below
	// cluster.local. The bool says whether the name exists; it may exist
	// without an address. It is called concurrently and must not block.
	Lookup(ctx context.Context, name string) ([]netip.Addr, bool)
}

// DNSOptions says what a DNS serves.
type DNSOptions struct {
	// Listen is where to listen, UDP and TCP: the gateway, port 53.
	Listen netip.AddrPort
	// Resolver answers cluster names. Required.
	Resolver Resolver
	// Local are the ranges whose reverse names are unknown to everyone: those
	// of pods and services. Upstreams are never asked for them.
	Local []netip.Prefix
	// Upstreams answer all other names, the first one that does. Default: the
	// name servers of the machine's resolv.conf, read again when it changes.
	Upstreams []netip.AddrPort
}

// DNS is a name server for pods. It answers names below cluster.local, and
// those that end in .svc, from its resolver, and passes the rest on.
type DNS struct {
	options  DNSOptions
	servers  []*dns.Server
	running  sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
	forwards chan struct{}

	mu      sync.Mutex
	read    time.Time
	fromEtc []netip.AddrPort
}

// ServeDNS starts a name server, which serves until Close; ctx bounds the start.
func ServeDNS(ctx context.Context, options DNSOptions) (*DNS, error) {
	if options.Resolver == nil || !options.Listen.IsValid() {
		return nil, errors.New("starting the name server: it needs an address to listen at and a resolver")
	}
	address := options.Listen.String()
	var config net.ListenConfig
	packets, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, listenError(err, address)
	}
	// Port 0 chooses one, which then holds for both.
	address = packets.LocalAddr().String()
	streams, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, errors.Join(listenError(err, address), packets.Close())
	}
	d := &DNS{options: options, forwards: make(chan struct{}, maxForwards)}
	d.options.Listen = netip.MustParseAddrPort(address)
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	d.servers = []*dns.Server{{PacketConn: packets, Handler: d}, {Listener: streams, Handler: d}}
	started := make(chan struct{}, len(d.servers))
	for _, server := range d.servers {
		server.NotifyStartedFunc = func() { started <- struct{}{} }
		d.running.Go(func() {
			// It ends with Close, or when its socket breaks, which nobody
			// else does.
			_ = server.ActivateAndServe()
		})
	}
	for range d.servers {
		<-started
	}
	return d, nil
}

func listenError(err error, address string) error {
	return fmt.Errorf("starting the pods' name server at %s: %w; if another program listens at port 53 of all addresses, tell it which ones it may use", address, err)
}

// Addr is where it listens.
func (d *DNS) Addr() netip.AddrPort { return d.options.Listen }

// Close stops it and waits for the answers that are being given.
func (d *DNS) Close() error {
	d.cancel()
	var errs []error
	for _, server := range d.servers {
		errs = append(errs, server.Shutdown())
	}
	d.running.Wait()
	return errors.Join(errs...)
}

// ServeDNS answers one question. It is called by the server.
func (d *DNS) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	var answer *dns.Msg
	switch {
	case len(question.Question) != 1 || question.Opcode != dns.OpcodeQuery:
		answer = new(dns.Msg).SetRcode(question, dns.RcodeNotImplemented)
	default:
		answer = d.answer(question, transport(w))
	}
	if transport(w) == "udp" {
		size := dns.MinMsgSize
		if opt := question.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
		}
		answer.Truncate(size)
	}
	// Whoever asked may be gone; there is nobody else to tell.
	_ = w.WriteMsg(answer)
}

func transport(w dns.ResponseWriter) string { return w.RemoteAddr().Network() }

func (d *DNS) answer(question *dns.Msg, network string) *dns.Msg {
	q := question.Question[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	switch {
	case name == clusterDomain || strings.HasSuffix(name, "."+clusterDomain):
		return d.local(question, name)
	case strings.HasSuffix(name, ".svc"):
		return d.local(question, name+"."+clusterDomain)
	case name == "localhost":
		return addressAnswer(question, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})})
	case d.isLocalReverse(name):
		return new(dns.Msg).SetRcode(question, dns.RcodeNameError)
	}
	return d.forward(question, network)
}

// local answers from the resolver. A name that exists has no records besides
// its addresses.
func (d *DNS) local(question *dns.Msg, name string) *dns.Msg {
	addrs, exists := d.options.Resolver.Lookup(d.ctx, name)
	if !exists {
		answer := new(dns.Msg).SetRcode(question, dns.RcodeNameError)
		answer.Authoritative = true
		return answer
	}
	return addressAnswer(question, addrs)
}

// addressAnswer gives the addresses in random order: most programs take the
// first.
func addressAnswer(question *dns.Msg, addrs []netip.Addr) *dns.Msg {
	answer := new(dns.Msg).SetReply(question)
	answer.Authoritative, answer.RecursionAvailable = true, true
	q := question.Question[0]
	if q.Qtype != dns.TypeA && q.Qtype != dns.TypeANY {
		return answer
	}
	for _, addr := range addrs {
		answer.Answer = append(answer.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: answerTTL},
			A:   addr.AsSlice()})
	}
	rand.Shuffle(len(answer.Answer), func(i, j int) {
		answer.Answer[i], answer.Answer[j] = answer.Answer[j], answer.Answer[i]
	})
	return answer
}

// isLocalReverse says whether a name asks back for an address of the local
// ranges. Programs that log names for addresses would wait for the upstreams'
// time-out each time.
func (d *DNS) isLocalReverse(name string) bool {
	labels, ok := strings.CutSuffix(name, ".in-addr.arpa")
	if !ok {
		return false
	}
	parts := strings.Split(labels, ".")
	slices.Reverse(parts)
	addr, err := netip.ParseAddr(strings.Join(parts, "."))
	return err == nil && slices.ContainsFunc(d.options.Local, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// forward asks the upstreams in turn.
func (d *DNS) forward(question *dns.Msg, network string) *dns.Msg {
	failed := new(dns.Msg).SetRcode(question, dns.RcodeServerFailure)
	select {
	case d.forwards <- struct{}{}:
		defer func() { <-d.forwards }()
	case <-d.ctx.Done():
		return failed
	}
	client := &dns.Client{Net: network, Timeout: upstreamTimeout, UDPSize: dns.MaxMsgSize}
	for _, upstream := range d.upstreams() {
		ctx, cancel := context.WithTimeout(d.ctx, upstreamTimeout)
		answer, _, err := client.ExchangeContext(ctx, question, upstream.String())
		cancel()
		if err == nil && answer.Rcode != dns.RcodeServerFailure && answer.Rcode != dns.RcodeRefused {
			return answer
		}
	}
	return failed
}

// upstreams leaves itself out, should the machine itself ask it.
func (d *DNS) upstreams() []netip.AddrPort {
	if d.options.Upstreams != nil {
		return d.options.Upstreams
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if info, err := os.Stat(hostResolvConf); err == nil && !info.ModTime().Equal(d.read) {
		d.read, d.fromEtc = info.ModTime(), hostNameServers(hostResolvConf)
	}
	return slices.DeleteFunc(slices.Clone(d.fromEtc), func(a netip.AddrPort) bool { return a == d.options.Listen })
}
