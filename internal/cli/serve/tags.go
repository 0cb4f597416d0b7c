package serve

import (
	"errors"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/dataset/egress"
	"github.com/muster-dev/muster/internal/imagetag"
)

// tags say whether it is looked up what tags of images of stages name, and as whom.
type tags struct {
	on     bool
	config string
}

func (t *tags) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&t.on, "look-up-tags", false, "ask registries what tags of the images of stages name, when a stage is planned: that is what counts for results, and what runs (default: the name counts, and a tag that moves is not seen)")
	flags.StringVar(&t.config, "registry-config", "", "file such as docker login writes, by which registries let in who looks up tags (default: they are asked as nobody)")
}

// check refuses flags that make no sense.
func (t *tags) check() error {
	if t.config != "" && !t.on {
		return exit.Usage("--registry-config %s: it is for --look-up-tags, which is not given", t.config)
	}
	return nil
}

// resolver asks registries, past a guard; nil: nobody does.
func (t *tags) resolver(guard *egress.Guard) *imagetag.Resolver {
	if !t.on {
		return nil
	}
	return imagetag.New(imagetag.Options{Transport: registries{guard.Transport()}, Config: t.config})
}

// registries carries requests to registries, and says of addresses that are none's what a
// guard of buckets says of buckets.
type registries struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r registries) RoundTrip(in *http.Request) (*http.Response, error) {
	if in.URL.Scheme != "https" { // to where a registry has sent it
		return nil, errors.New("it sends who asks to an address without TLS, and Muster does not go there")
	}
	out, err := r.RoundTripper.RoundTrip(in)
	if errors.Is(err, egress.ErrAddress) {
		err = errors.New("it is at an address that Muster does not connect to: have the installation allow it (pipelines.egress.allow)")
	}
	return out, err
}

// images are those of stages: by what their registries say, or by their names.
func images(resolver *imagetag.Resolver) pipeline.Images {
	if resolver == nil {
		return named{}
	}
	return lookedUp{resolver}
}

// lookedUp knows images by what their registries say of them.
type lookedUp struct{ resolver *imagetag.Resolver }

// Check implements [pipeline.Images].
func (lookedUp) Check(name string) error { return imagetag.Check(name) }

// Ensure implements [pipeline.Images].
func (l lookedUp) Ensure(name string, since time.Time) pipeline.ImageState {
	s := l.resolver.Ensure(name, since)
	return pipeline.ImageState{Digest: s.Digest, Exact: s.Exact, Failed: s.Failed, Message: s.Message}
}
