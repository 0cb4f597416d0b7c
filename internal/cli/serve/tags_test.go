package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		if state := known.Ensure("box:1"); (state.Digest == "box:1") == c.on || state.Failed {
			t.Errorf("%q: %+v", c.args, state)
		}
		if err := known.Check("Not An Image"); (err != nil) != c.on {
			t.Errorf("%q: a name that is none: %v", c.args, err)
		}
		if state := known.Ensure("box@sha256:" + strings.Repeat("a", 64)); state.Digest != "sha256:"+strings.Repeat("a", 64) {
			t.Errorf("%q: %+v", c.args, state)
		}
	}
}

// What is at an address that is nobody's registry is not asked, and said not to be.
func TestRegistriesPastTheGuard(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := registries{(&egress.Guard{}).Transport()}.RoundTrip(request)
	if err == nil {
		_ = out.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "pipelines.egress.allow") || strings.Contains(err.Error(), "bucket") {
		t.Errorf("%v", err)
	}
}
