package serve

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// Where the API server is, by how it is reached and by what it says.
func TestWhereTheAPIServerIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path != "/api" {
			http.NotFound(out, in)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(`{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"192.0.2.7:6443"}]}`))
	}))
	defer server.Close()
	got := apiServers(t.Context(), &rest.Config{Host: server.URL})
	want := []netip.AddrPort{netip.MustParseAddrPort(server.Listener.Addr().String()), netip.MustParseAddrPort("192.0.2.7:6443")}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := apiServers(t.Context(), &rest.Config{Host: "https://192.0.2.9"}); !slices.Equal(got, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:443")}) {
		t.Errorf("one that does not answer: %v", got)
	}
}

func TestFlagsOfEgress(t *testing.T) {
	for flag, wrong := range map[string]bool{"--egress=false": false, "--egress-allow=127.0.0.0/8": false, "--egress-refuse=10.0.0.0/8": false, "--egress-allow=127.0.0.1": true, "--egress-refuse=x": true} {
		var c copies
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		c.addFlags(flags)
		if err := flags.Parse([]string{flag}); (err != nil) != wrong {
			t.Errorf("%s: %v", flag, err)
		}
		if rules := c.rules(c.guard(t.Context(), nil)); rules.Off != (flag == "--egress=false") || rules.Copies.Transport == nil || rules.AtOnce == 0 || rules.Copies.Buffers == nil || rules.Copies.Pace.Bytes == 0 {
			t.Errorf("%s: %+v", flag, rules)
		}
	}
}

// Whoever connects to services of others believes the same authorities.
func TestBelieve(t *testing.T) {
	o := &options{}
	if err := o.believe(); err != nil {
		t.Fatal(err)
	}
	pool := o.store.bucket.Authorities
	if pool == nil || o.data.bucket.Authorities != pool || o.copies.guard(t.Context(), nil).Authorities != pool {
		t.Errorf("%p, %p, %p", pool, o.data.bucket.Authorities, o.copies.guard(t.Context(), nil).Authorities)
	}
	o.authorities = filepath.Join(t.TempDir(), "none")
	if err := o.believe(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}
