package serve

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/dataset/egress"
)

func TestTags(t *testing.T) {
	for _, c := range []struct {
		args  []string
		on    bool
		wrong string
	}{
		{nil, false, ""},
		{[]string{"--look-up-tags"}, true, ""},
		{[]string{"--look-up-tags", "--registry-config", "/x"}, true, ""},
		{[]string{"--registry-config", "/x"}, false, "--registry-config /x: it is for --look-up-tags"},
	} {
		var made tags
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		made.addFlags(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		err := made.check()
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v", c.args, err)
		}
		resolver := made.resolver(&egress.Guard{})
		if (resolver != nil) != c.on {
			t.Errorf("%q: asked %t", c.args, resolver != nil)
		}
		known := images(resolver)
		if state := known.Ensure("box:1", time.Time{}); (state.Digest == "box:1") == c.on || state.Failed {
			t.Errorf("%q: %+v", c.args, state)
		}
		if err := known.Check("Not An Image"); (err != nil) != c.on {
			t.Errorf("%q: a name that is none: %v", c.args, err)
		}
		if state := known.Ensure("box@sha256:"+strings.Repeat("a", 64), time.Time{}); state.Digest != "sha256:"+strings.Repeat("a", 64) {
			t.Errorf("%q: %+v", c.args, state)
		}
	}
}

// What is at an address that is nobody's registry is not asked, nor what answers without TLS,
// and that is said.
func TestRegistriesPastTheGuard(t *testing.T) {
	asked := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for _, c := range []struct {
		server *httptest.Server
		guard  *egress.Guard
		said   string
	}{
		{httptest.NewTLSServer(asked), &egress.Guard{}, "pipelines.egress.allow"},
		{httptest.NewServer(asked), &egress.Guard{}, "without TLS"},
		{httptest.NewServer(asked), &egress.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, "without TLS"},
	} {
		t.Cleanup(c.server.Close)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, c.server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := registries{c.guard.Transport()}.RoundTrip(request)
		if err == nil {
			_ = out.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.said) || strings.Contains(err.Error(), "bucket") {
			t.Errorf("%s past %+v: %v", c.server.URL, c.guard, err)
		}
	}
}
