package up

import (
	"fmt"
	"os"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/manager"
)

// makeManager makes the controllers and the scheduler, ready to be started.
func (m *machine) makeManager() (*manager.Manager, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, which workers of pipelines run: %w", err)
	}
	return manager.New(manager.Options{
		REST:         m.plane.ManagerConfig(),
		Log:          m.log,
		Sources:      m.kept.sources,
		Environments: m.kept.outfit(m.outfitter),
		Also:         m.outfitter.SetupWithManager,
		Data:         m.reader,
		HostImage:    v1alpha1.HostImage,
		VolumesDir:   m.path("volumes"),
		VolumeOwner:  m.claimOwner(),
		Names:        m.names(),
		Pipelines: &pipeline.Machine{
			Store: m.kept.results, Foreman: m.foreman, Sources: m.kept.sources, Environments: m.kept.outfit(m.outfitter),
			Unmountable: unmountable(m.tier), Interpreter: m.interpreter.Describe, Run: prepared{m.builder}.run, Program: program, Worker: m.worker, Images: m.stages, Transcript: m.printed,
			Shared: m.shared, Egress: m.copies(), KeepResults: time.Duration(m.config.Retention.Results), Swept: m.swept,
		},
		NodeName:         nodeName(),
		DefaultScheduler: true,
		Alone:            true, // the home is locked
	})
}
