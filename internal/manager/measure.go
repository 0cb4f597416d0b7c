package manager

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-dev/muster/internal/metrics"
	"github.com/muster-dev/muster/internal/snapshot"
)

// record makes what is told how the scheduler does and sees every write on its
// way, and the configuration through which it does; nobody, where metrics are
// not served.
func (o Options) record() (snapshot.Observer, *rest.Config, error) {
	if !o.measured() {
		return nil, o.REST, nil
	}
	recorder, err := metrics.NewRecorder(latest{registry.Registry})
	if err != nil {
		return nil, nil, fmt.Errorf("making the metrics: %w", err)
	}
	config := rest.CopyConfig(o.REST)
	config.Wrap(recorder.Transport)
	return recorder, config, nil
}

// count adds what is counted from the cache.
func (o Options) count(mgr ctrl.Manager) error {
	if !o.measured() {
		return nil
	}
	holdings := &metrics.Holdings{Cache: mgr.GetCache()}
	if err := (latest{registry.Registry}).Register(holdings); err != nil {
		return fmt.Errorf("making the metrics: %w", err)
	}
	if err := mgr.Add(holdings); err != nil {
		return fmt.Errorf("adding up what is held: %w", err)
	}
	return nil
}

// measured reports whether metrics are served.
func (o Options) measured() bool { return o.MetricsAddress != off }

// latest is a registry, of which there is one a process, in which what is registered
// takes the place of what an earlier manager of the process has left: one that was
// replaced stands by again as another.
type latest struct{ prometheus.Registerer }

// Register implements [prometheus.Registerer].
func (l latest) Register(c prometheus.Collector) error {
	err := l.Registerer.Register(c)
	if before, is := errors.AsType[prometheus.AlreadyRegisteredError](err); is {
		l.Unregister(before.ExistingCollector)
		return l.Registerer.Register(c)
	}
	return err
}
