package serve

import (
	"net/url"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/controller/workshop"
	"github.com/muster-dev/muster/internal/door/depot"
)

// builds say whether and how environments are built from requirements.
type builds struct {
	on    bool
	index string
	nodes map[string]string
	limit time.Duration
}

func (b *builds) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&b.on, "build", false, "build environments from the requirements of jobs, in pods of the jobs' images; takes a store, and agents on nodes with the address of the door")
	flags.StringVar(&b.index, "build-index", "", "address of the index of packages that builds ask, as pip's --index-url (default: pip's own)")
	flags.StringToStringVar(&b.nodes, "build-node-selector", nil, "labels of the nodes on which environments are built: KEY=VALUE, separated by commas; they have to have the agent (default: all)")
	flags.DurationVar(&b.limit, "build-limit", time.Hour, "how long building an environment may take")
}

// check refuses flags that make no sense.
func (b *builds) check(stores bool) error {
	address, err := url.Parse(b.index)
	switch {
	case b.on && !stores:
		return exit.Usage("--build: environments have to be kept somewhere: give --store-folder or --store-s3-endpoint, too")
	case err != nil || b.index != "" && (address.Host == "" || address.Scheme != "https" && address.Scheme != "http"):
		return exit.Usage("--build-index: give an address such as https://packages.example.com/simple")
	case b.index != "" && address.User != nil:
		return exit.Usage("--build-index %s: it has a user or password in it, which every reader of the pods of builds could see: leave it out; users name a Secret with it in environment.indexSecret", address.Redacted())
	case b.on && b.limit < time.Minute:
		return exit.Usage("--build-limit %s: give a minute or more", b.limit)
	}
	if _, err := labels.ValidatedSelectorFromSet(b.nodes); err != nil {
		return exit.Usage("--build-node-selector: %v", err)
	}
	return nil
}

// open opens the workshop; nil where nothing is built.
func (b *builds) open(store *depot.Depot, most int64) *workshop.Workshop {
	if !b.on || store == nil {
		return nil
	}
	return workshop.New(workshop.Options{Store: store, Most: most, NotStored: depot.ErrNotStored, Index: b.index, NodeSelector: b.nodes, Limit: b.limit})
}
