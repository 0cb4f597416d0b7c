package up

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/key/issuer"
	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/cli/up/outfitter"
	"github.com/muster-dev/muster/internal/cli/up/stores"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
	"github.com/muster-dev/muster/internal/node/volume"
)

// shared are the stores of a Muster that several users share.
type shared struct {
	m   *machine
	all *stores.Stores
}

func (m *machine) openShared() (*holdings, error) {
	all, err := stores.Open(stores.Options{
		Home: string(m.home), CodeQuota: m.config.Quotas.Code.Value(), DataQuota: m.config.Quotas.Data.Value(),
		KeepCode: time.Duration(m.config.Retention.Code), Log: m.log,
	})
	if err != nil {
		return nil, err
	}
	s := &shared{m: m, all: all}
	return &holdings{
		open: func(context.Context) error { return nil }, close: func() error { return nil },
		sources: all.Library(), snapshots: all.Code(),
		environments: func(b *environment.Builder) volume.Environments {
			return stores.Environments{Grants: all.Grants(), Folders: b}
		},
		outfit: func(o *outfitter.Outfitter) stores.Outfitter {
			return stores.Granting{Outfitter: o, Grants: all.Grants()}
		},
		data: all.Store, results: all.Results, scope: func(namespace string) string { return namespace },
		objects: func() (gateway.Stores, error) { return all.Data(), nil },
		// In its namespace a key could be made for any user.
		vault: func(api client.Client) *registry.Vault {
			return &registry.Vault{Client: api, Namespace: v1alpha1.SystemNamespace}
		},
		keeper: s.keeper, collector: s.collector, door: s.door,
		run: func(ctx context.Context) error { return named("the store of code", all.Library().Run(ctx)) },
	}, nil
}

// keeper removes code and environments by namespace.
func (s *shared) keeper() (runner, error) {
	m := s.m
	server, err := dynamic.NewForConfig(m.plane.ManagerConfig())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	k := &stores.Keeper{
		Stores: s.all, References: reference.Reader{Server: server, Home: string(m.home), Images: m.config.Images},
		Environments: m.path("environments"), KeepEnvironments: time.Duration(m.config.Retention.Environments), Log: m.log,
		Removed: func(r stores.Report) {
			m.say("removed %s and %s that nobody has used for long, freed %s", terminal.Count(int64(r.Code.Snapshots), "code snapshot"),
				terminal.Count(int64(len(r.Environments.Removed)), "environment"), terminal.Size64(r.Bytes()))
		},
	}
	return k.Run, nil
}

// collector frees data of each namespace that nothing reaches.
func (s *shared) collector() (runner, error) {
	server, err := s.m.client()
	if err != nil {
		return nil, err
	}
	caretaker := &dataset.Caretaker{Stores: s.all.Collected(), Client: server, Log: s.m.log}
	return func(ctx context.Context, ready <-chan struct{}) error {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			return caretaker.Start(ctx)
		}
	}, nil
}

// keyLife is the longest time for which an access key of an S3 client is good.
const keyLife = 90 * 24 * time.Hour

// door are the options of the door of this machine. Whoever serves it says how callers are
// identified. Call it once the gateway listens.
func (s *shared) door(api client.Client, answers door.Answers) door.Options {
	var keys door.Keys
	if at := s.m.state.S3; at != "" {
		keys = &issuer.Issuer{
			Vault: &registry.Vault{Client: api, Namespace: v1alpha1.SystemNamespace},
			Life:  keyLife, Place: "machine", Endpoint: func() string { return at },
		}
	}
	return s.all.DoorOptions(api, keys, answers, s.m.log)
}
