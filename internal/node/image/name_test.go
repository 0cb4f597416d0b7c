package image

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	spec "github.com/opencontainers/image-spec/specs-go/v1"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, full string
		policy     Policy
	}{
		{"busybox", "docker.io/library/busybox:latest", PolicyAlways},
		{"tensorflow/tensorflow:2.20", "docker.io/tensorflow/tensorflow:2.20", PolicyIfNotPresent},
		{"127.0.0.1:5000/a/b:1", "127.0.0.1:5000/a/b:1", PolicyIfNotPresent},
		{"a@" + someDigest, "docker.io/library/a@" + someDigest, PolicyIfNotPresent},
		{"a:1@" + someDigest, "docker.io/library/a@" + someDigest, PolicyIfNotPresent},
		{"Upper/Case", "", ""},
		{"", "", ""},
		{"a:b:c", "", ""},
	} {
		full, err := parse(c.name)
		if c.full == "" {
			if err == nil || ReasonOf(err) != InvalidName || !strings.Contains(err.Error(), `"`+c.name+`"`) {
				t.Errorf("%q: got %v, want that it is no name", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		if full.String() != c.full || policyFor("", full) != c.policy || policyFor(PolicyNever, full) != PolicyNever {
			t.Errorf("%q is %s, pulled %s; want %s, %s", c.name, full, policyFor("", full), c.full, c.policy)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []Credential{
		{Registry: "https://index.docker.io/v1/", Username: "hub"},
		{Registry: "registry.example:5000", Username: "whole"},
		{Registry: "https://registry.example:5000/team/", Username: "team"},
	}
	for _, c := range []struct{ name, host, want string }{
		{"busybox", "registry-1.docker.io", "hub"},
		{"registry.example:5000/other/a:1", "registry.example:5000", "whole"},
		{"registry.example:5000/team/a:1", "registry.example:5000", "team"},
		{"registry.example:5000/teams/a:1", "registry.example:5000", "whole"},
		{"registry.example/team/a:1", "registry.example", ""},
	} {
		full, err := parse(c.name)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if one := choose(all, full, c.host); one != nil {
			got = one.Username
		}
		if got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.name, c.host, got, c.want)
		}
	}
}

func TestPick(t *testing.T) {
	on := func(os, architecture string) spec.Descriptor {
		return spec.Descriptor{Digest: digest.FromString(os + architecture), Platform: &spec.Platform{OS: os, Architecture: architecture}}
	}
	all := []spec.Descriptor{on("windows", runtime.GOARCH), on("unknown", "unknown"), on("linux", "s390x"), on("linux", runtime.GOARCH)}
	if got, err := pick(all); err != nil || got.Digest != all[3].Digest {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := pick(all[:3])
	if err == nil || ReasonOf(err) != NotUsable || !strings.HasSuffix(err.Error(), "it has windows/"+runtime.GOARCH+", linux/s390x") {
		t.Errorf("got %v, want what there is instead", err)
	}
	if got, err := pick([]spec.Descriptor{{Digest: someDigest}}); err != nil || got.Digest != someDigest {
		t.Errorf("the only one: %v, %v", got, err)
	}
}

// The names that containerd's other clients give: by the definition of a
// ChainID in OCI's image specification.
func TestChains(t *testing.T) {
	a, b, c := digest.FromString("a"), digest.FromString("b"), digest.FromString("c")
	ab := digest.FromString(a.String() + " " + b.String())
	want := []string{a.String(), ab.String(), digest.FromString(ab.String() + " " + c.String()).String()}
	if diff := cmp.Diff(want, chains([]digest.Digest{a, b, c})); diff != "" {
		t.Error(diff)
	}
}
