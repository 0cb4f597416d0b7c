package egress

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestGuard(t *testing.T) {
	g := &Guard{
		Allow: prefixes("127.0.0.2/32", "169.254.20.0/24", "10.0.0.0/8"), Refuse: prefixes("10.9.0.0/16", "2001:db8:9::/48"),
		Servers: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")},
		Own:     func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.168.7.7")}, nil },
	}
	for address, says := range map[string]string{
		"52.216.0.1:443":            "",
		"10.1.2.3:9000":             "",
		"192.168.1.1:9000":          "",
		"[2600:1f18::1]:443":        "",
		"[fd12::1]:9000":            "",
		"127.0.0.1:80":              "this machine",
		"127.0.0.2:80":              "",
		"127.9.9.9:80":              "this machine",
		"[::1]:80":                  "this machine",
		"[::ffff:127.0.0.1]:80":     "this machine",
		"[::127.0.0.1]:80":          "this machine",
		"[64:ff9b::127.0.0.1]:80":   "this machine",
		"[::ffff:0:127.0.0.1]:80":   "this machine",
		"[2002:7f00:1::]:80":        "this machine",
		"0.0.0.0:80":                "this machine",
		"0.1.2.3:80":                "this machine",
		"[::]:80":                   "this machine",
		"192.168.7.7:8080":          "this machine",
		"169.254.169.254:80":        "link-local",
		"[::ffff:a9fe:a9fe]:80":     "link-local",
		"[64:ff9b::a9fe:a9fe]:80":   "link-local",
		"[::ffff:0:a9fe:a9fe]:80":   "link-local",
		"169.254.20.10:80":          "",
		"[fe80::1%eth0]:80":         "link-local",
		"224.0.0.1:80":              "multicast",
		"[ff02::1]:80":              "multicast",
		"255.255.255.255:80":        "reserved",
		"[fd00:ec2::254]:80":        "metadata",
		"100.100.100.200:80":        "metadata",
		"168.63.129.16:80":          "metadata",
		"192.0.0.192:80":            "metadata",
		"[64:ff9b:1::a9fe:a9fe]:80": "translated",
		"10.96.0.1:443":             "the API server",
		"[::ffff:10.96.0.1]:443":    "the API server",
		"10.96.0.1:9000":            "",
		"10.9.1.1:9000":             "this installation refuses",
		"[2001:db8:9::1]:9000":      "this installation refuses",
	} {
		err := g.Check(netip.MustParseAddrPort(address))
		if says == "" && err != nil || says != "" && (!errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", address, err, says)
		}
	}
}

// The guard looks at what a name comes to, and an answer without end is cut.
func TestGuardedTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path == "/away" {
			http.Redirect(out, in, "http://127.0.0.3:9/", http.StatusFound)
			return
		}
		if in.URL.Path == "/page" {
			http.Error(out, "what others know", http.StatusForbidden)
			return
		}
		for range 3 << 20 / 1024 {
			if _, err := out.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	get := func(g *Guard, url string) (int, error) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: g.Transport()}).Do(request)
		if err != nil {
			return 0, err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		return len(text), err
	}
	named := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	if _, err := get(&Guard{}, named); !errors.Is(err, ErrAddress) {
		t.Errorf("by a name: %v", err)
	}
	allowed := &Guard{Allow: prefixes("127.0.0.1/32")}
	if n, err := get(allowed, server.URL); err != nil || n != mostBody {
		t.Errorf("%d bytes of an answer were read: %v", n, err)
	}
	if n, err := get(allowed, server.URL+"/page"); err != nil || n != 0 {
		t.Errorf("%d bytes of what is no bucket's were read: %v", n, err)
	}
	if _, err := get(allowed, server.URL+"/away"); !errors.Is(err, ErrAddress) {
		t.Errorf("where it was sent on to: %v", err)
	}
}

// Only a bucket that makes a file of its parts may take longer than a minute.
// What is past a guard is believed by the authorities that it names, and by no others.
func TestGuardedAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ours := x509.NewCertPool()
	ours.AddCert(server.Certificate())
	for name, pool := range map[string]*x509.CertPool{"ours": ours, "others": x509.NewCertPool(), "": nil} {
		guard := &Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Authorities: pool}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := guard.Transport().RoundTrip(request)
		if err == nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != (name == "ours") || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestGuardedPatience(t *testing.T) {
	by, ok := (&Guard{}).Transport().(brief)
	if !ok {
		t.Fatal("answers are not cut")
	}
	for _, c := range []struct {
		method, url string
		patient     bool
	}{
		{http.MethodPut, "http://b.test/k", false},
		{http.MethodPut, "http://b.test/k?partNumber=1&uploadId=u", false},
		{http.MethodPost, "http://b.test/k?uploads=", false},
		{http.MethodPost, "http://b.test/k?uploadId=u", true},
		{http.MethodDelete, "http://b.test/k?uploadId=u", false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		waits := answering
		if c.patient {
			waits = assembling
		}
		if transport, ok := by.of(r).(*http.Transport); !ok || transport.ResponseHeaderTimeout != waits {
			t.Errorf("%s %s: %+v, want %s", c.method, c.url, transport, waits)
		}
	}
}
