package up

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/manager"
)

// sources is the fetcher and the store as the controllers see them.
type sources struct {
	*source.Fetcher
	store *source.Store
}

// Has reports whether a snapshot is stored.
func (s sources) Has(_, digest string) (bool, error) { return s.store.Has(digest), nil }

// Contains reports whether a stored snapshot holds a file.
func (s sources) Contains(_, digest, path string) (bool, error) {
	return s.store.Contains(digest, path)
}

// Part returns a file or folder of a stored snapshot.
func (s sources) Part(_, digest, path string) (source.Part, error) { return s.store.Part(digest, path) }

// Files are the files of a stored snapshot.
func (s sources) Files(_, digest string) (map[string]string, error) { return s.store.Files(digest) }

// makeManager makes the controllers and the scheduler, ready to be started.
func (m *machine) makeManager() (*manager.Manager, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, which workers of pipelines run: %w", err)
	}
	return manager.New(manager.Options{
		REST:         m.plane.RESTConfig(),
		Log:          m.log,
		Sources:      sources{m.fetcher, m.store},
		Environments: m.outfitter,
		Also:         m.outfitter.SetupWithManager,
		Data:         m.reader,
		HostImage:    v1alpha1.HostImage,
		VolumesDir:   m.path("volumes"),
		Pipelines: &pipeline.Machine{
			Store: func(context.Context, string) (*data.Store, error) { return m.data, nil }, Foreman: m.foreman, Sources: sources{m.fetcher, m.store}, Environments: m.outfitter,
			Unmountable: unmountable(m.tier), Interpreter: m.interpreter.Describe, Run: m.builder.Ask, Program: program, Worker: m.worker, Images: m.stages, Transcript: m.printed,
			KeepResults: time.Duration(m.config.Retention.Results), Swept: m.swept,
		},
		NodeName:         nodeName(),
		DefaultScheduler: true,
		Alone:            true, // the home is locked
	})
}
