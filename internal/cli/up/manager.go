package up

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/controller"
	"github.com/muster-dev/muster/internal/environment/source"
)

// sources is the fetcher and the store as the controllers see them.
type sources struct {
	*source.Fetcher
	store *source.Store
}

// Has reports whether a snapshot is stored.
func (s sources) Has(digest string) bool { return s.store.Has(digest) }

// Contains reports whether a stored snapshot holds a file.
func (s sources) Contains(digest, path string) (bool, error) { return s.store.Contains(digest, path) }

// makeManager makes the controllers and the scheduler, ready to be started.
func (m *machine) makeManager() (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the Kubernetes kinds: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Muster's kinds: %w", err)
	}
	logger := logr.FromSlogHandler(m.log.Handler())
	mgr, err := ctrl.NewManager(m.plane.RESTConfig(), ctrl.Options{
		Scheme:                 scheme,
		Logger:                 logger,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("making the controllers: %w", err)
	}
	err = controller.Setup(mgr, controller.Deps{
		Sources:          sources{m.fetcher, m.store},
		Environments:     m.builder,
		VolumesDir:       m.path("volumes"),
		NodeName:         nodeName(),
		DefaultScheduler: true,
		Alone:            true, // the home is locked
		Log:              logger,
	})
	return mgr, err
}
