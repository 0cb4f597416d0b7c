package up

import (
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/cli/terminal"
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
