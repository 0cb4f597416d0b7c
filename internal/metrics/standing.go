package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var waitingDesc = prometheus.NewDesc("muster_waiting_gangs", "Gangs and lone pods that wait, by queue and kind of reason.", []string{"queue", "reason"}, nil)

// standing is who waits at the moment. Unlike a gauge vector it forgets what is
// no more.
type standing struct {
	mu  sync.Mutex
	now map[[2]string]int
}

func newStanding() *standing { return &standing{} }

func (s *standing) set(now map[[2]string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = maps.Clone(now)
}

// Describe names the metric.
func (s *standing) Describe(out chan<- *prometheus.Desc) { out <- waitingDesc }

// Collect tells who waits.
func (s *standing) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for by, n := range s.now {
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(n), by[0], by[1])
	}
}
