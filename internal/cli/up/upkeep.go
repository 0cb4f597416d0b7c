package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/environment/upkeep"
)

// makeKeeper makes what removes code and environments that nobody uses.
func (m *machine) makeKeeper() (*upkeep.Keeper, error) {
	server, err := dynamic.NewForConfig(m.plane.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return upkeep.New(upkeep.Options{
		Store: m.store, Environments: m.path("environments"),
		References:       reference.Reader{Server: server, Home: string(m.home), Images: m.config.Images},
		KeepCode:         time.Duration(m.config.Retention.Code),
		KeepEnvironments: time.Duration(m.config.Retention.Environments),
		Removed: func(r upkeep.Report) {
			m.say("removed %s and %s that nobody has used for long, freed %s", terminal.Count(int64(len(r.Code.Removed)), "code snapshot"),
				terminal.Count(int64(len(r.Environments.Removed)), "environment"), terminal.Size64(r.Bytes()))
		},
		Log: m.log,
	}), nil
}

// makeCollector makes what frees data that no branch and no tag reaches.
func (m *machine) makeCollector() (*dataset.Keeper, error) {
	scheme, err := connection.Scheme()
	if err != nil {
		return nil, err
	}
	server, err := client.New(m.plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &dataset.Keeper{
		Collect: m.collect, Heads: dataset.Everything{Client: server}, Log: m.log,
		Collected: func(r data.CollectReport) {
			if r.Bytes > 0 {
				m.say("freed %s of data that nothing reaches any more", terminal.Size64(r.Bytes))
			}
		},
	}, nil
}

// collect makes one pass over the store of data, which is open as long as that
// takes. Where nobody has put anything yet there is none.
func (m *machine) collect(ctx context.Context, o data.CollectOptions) (report data.CollectReport, err error) {
	if _, err := os.Stat(m.path(opening.Folder)); errors.Is(err, fs.ErrNotExist) {
		return report, nil
	}
	store, err := opening.OpenFolder(ctx, string(m.home))
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Collect(ctx, o)
}
