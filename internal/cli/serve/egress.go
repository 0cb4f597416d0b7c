package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/dataset/egress"
)

const (
	// copiesAtOnce is how many outputs are copied elsewhere at a time, and filesAtOnce how
	// many files of each.
	copiesAtOnce = 4
	filesAtOnce  = 4
	// copyBuffers is what the parts of large files have of memory together.
	copyBuffers = 256 << 20
	// resolving is how long it may take to find out where the API server is.
	resolving = 5 * time.Second
)

// leastPace is how slow a bucket may be: one that takes nothing would keep others from
// their turn for ever.
var leastPace = egress.Pace{Bytes: 1 << 20, In: 2 * time.Minute}

// copies say whether, and where to, outputs of stages are copied.
type copies struct {
	on            bool
	allow, refuse prefixes
	// authorities are whose certificates are believed; nil: the system's.
	authorities *x509.CertPool
}

// prefixes is a flag's value: ranges of addresses.
type prefixes struct{ list []netip.Prefix }

// Set implements [pflag.Value].
func (p *prefixes) Set(text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return errors.New("give a range of addresses, such as 10.1.0.0/16 or 10.1.2.3/32")
	}
	p.list = append(p.list, prefix.Masked())
	return nil
}

// String implements [pflag.Value].
func (p *prefixes) String() string {
	if len(p.list) == 0 {
		return ""
	}
	return fmt.Sprint(p.list)
}

// Type implements [pflag.Value].
func (*prefixes) Type() string { return "cidr" }

func (c *copies) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.on, "egress", true, "copy outputs of stages to buckets, where these say so (output.egress)")
	flags.Var(&c.allow, "egress-allow", "addresses that they may be copied to although they are this machine's, link-local or of another kind that is refused otherwise; may be given several times")
	flags.Var(&c.refuse, "egress-refuse", "addresses that nothing is copied to; wins over --egress-allow; may be given several times")
}

// guard is what whoever tenants name is reached past.
func (c *copies) guard(ctx context.Context, config *rest.Config) *egress.Guard {
	guard := &egress.Guard{Allow: c.allow.list, Refuse: c.refuse.list, Authorities: c.authorities}
	if config != nil {
		guard.Servers = apiServers(ctx, config)
	}
	return guard
}

// rules are what the controller keeps to.
func (c *copies) rules(guard *egress.Guard) *pipeline.Egress {
	return &pipeline.Egress{Off: !c.on, AtOnce: copiesAtOnce, Copies: egress.Options{
		Transport: guard.Transport(), AtOnce: filesAtOnce, Pace: leastPace, Buffers: egress.NewBuffers(copyBuffers),
	}}
}

// apiServers are the addresses of the API server, as far as they can be known: the one
// by which it is reached, and those that it says of itself.
func apiServers(ctx context.Context, config *rest.Config) (out []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, resolving)
	defer cancel()
	add := func(host, port string) {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return
		}
		found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // a name that means nothing leads nowhere
		for _, a := range found {
			out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(n)))
		}
	}
	if u, _, err := rest.DefaultServerUrlFor(config); err == nil {
		add(u.Hostname(), portOf(u))
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return out
	}
	said := &metav1.APIVersions{}
	if set.RESTClient().Get().AbsPath("/api").Do(ctx).Into(said) != nil {
		return out
	}
	for _, s := range said.ServerAddressByClientCIDRs {
		if host, port, err := net.SplitHostPort(s.ServerAddress); err == nil {
			add(host, port)
		}
	}
	return out
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}
