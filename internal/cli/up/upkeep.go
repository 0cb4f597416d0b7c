package up

import (
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/dataset/expiry"
	"github.com/muster-dev/muster/internal/environment/upkeep"
)

// keeper makes what removes code and environments that nobody uses.
func (s *single) keeper() (runner, error) {
	m := s.m
	server, err := dynamic.NewForConfig(m.plane.ManagerConfig())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	k := upkeep.New(upkeep.Options{
		Store: s.code, Environments: m.path("environments"),
		References:       reference.Reader{Server: server, Home: string(m.home), Images: m.config.Images},
		KeepCode:         time.Duration(m.config.Retention.Code),
		KeepEnvironments: time.Duration(m.config.Retention.Environments),
		Removed: func(r upkeep.Report) {
			m.say("removed %s and %s that nobody has used for long, freed %s", terminal.Count(int64(len(r.Code.Removed)), "code snapshot"),
				terminal.Count(int64(len(r.Environments.Removed)), "environment"), terminal.Size64(r.Bytes()))
		},
		Log: m.log,
	})
	return k.Run, nil
}

// collector makes what frees data that no branch and no tag reaches.
func (s *single) collector() (runner, error) {
	m := s.m
	server, err := m.client()
	if err != nil {
		return nil, err
	}
	k := &dataset.Keeper{
		Collect: s.all.Collect, Heads: dataset.Everything{Client: server}, Log: m.log,
		Collected: func(r data.CollectReport) {
			if r.Bytes > 0 {
				m.say("freed %s of data that nothing reaches any more", terminal.Size64(r.Bytes))
			}
			if r.Joined > 0 {
				m.say("joined %s of data into larger objects", terminal.Count(int64(r.Joined), "small pack"))
			}
		},
	}
	return k.Run, nil
}

// swept says which results of pipelines were removed.
func (m *machine) swept(r expiry.Report) {
	if r.Swept.Any() {
		m.say("removed %s of pipelines that no output has and nobody has used for long", terminal.Count(int64(r.Results+r.Failed), "result"))
	}
	if r.States > 0 {
		m.say("removed %s of states, whose pipelines are gone", terminal.Count(int64(r.States), "dataset"))
	}
}
