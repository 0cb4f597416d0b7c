package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Recorder counts what it is told. Its methods may be called from anywhere,
// at any time, and do not block.
type Recorder struct {
	passes  prometheus.Histogram
	gpus    prometheus.Gauge
	free    prometheus.Gauge
	plans   *prometheus.CounterVec
	waits   *prometheus.HistogramVec
	waiting *standing
	writes  *prometheus.HistogramVec
	refused *prometheus.CounterVec
}

// waitBuckets are from moments to two weeks, in seconds.
var waitBuckets = []float64{0.1, 1, 10, 60, 300, 1200, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 14 * 24 * 3600}

// NewRecorder returns one that is registered.
func NewRecorder(registry prometheus.Registerer) (*Recorder, error) {
	r := &Recorder{
		passes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "muster_scheduler_pass_duration_seconds", Help: "How long passes of the scheduler took: telling what changed, deciding, reasons. Writes are not waited for.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		gpus: prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_gpus", Help: "GPUs of nodes that take new work, unhealthy ones left out."}),
		free: prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_gpus_free", Help: "What of them nobody holds, parts of GPUs as parts."}),
		plans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_scheduler_decisions_total", Help: "Decisions by kind: plan (room was given), eviction (running work was told to make room), growth and return (of single members of elastic gangs).",
		}, []string{"kind"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_gang_wait_duration_seconds", Help: "From the submission of a gang or pod to the plan of its first attempt, by queue and class of size.",
			Buckets: waitBuckets,
		}, []string{"queue", "class"}),
		waiting: newStanding(),
		writes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "muster_api_write_duration_seconds", Help: "How long writes to the API server took, by verb and resource.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 13),
		}, []string{"verb", "resource"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "muster_api_write_failures_total", Help: "Writes to the API server that failed, by verb, resource and HTTP code; 0: there was no answer. Conflicts (409) are repeated and harmless in small numbers.",
		}, []string{"verb", "resource", "code"}),
	}
	for _, c := range []prometheus.Collector{r.passes, r.gpus, r.free, r.plans, r.waits, r.waiting, r.writes, r.refused} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Passed notes a pass of the scheduler, how many GPUs can be given out at all,
// and how much of them is free, in thousandths.
func (r *Recorder) Passed(took time.Duration, gpus, freeMilli int64) {
	r.passes.Observe(took.Seconds())
	r.gpus.Set(float64(gpus))
	r.free.Set(float64(freeMilli) / 1000)
}

// Decided notes n decisions of a kind.
func (r *Recorder) Decided(kind string, n int) {
	if n > 0 {
		r.plans.WithLabelValues(kind).Add(float64(n))
	}
}

// Started notes that something was planned for the first time.
func (r *Recorder) Started(queue string, gpus int64, waited time.Duration) {
	r.waits.WithLabelValues(queue, class(gpus)).Observe(max(0, waited.Seconds()))
}

// Waiting notes who waits at the moment, by queue and kind of reason. It
// replaces what was noted before.
func (r *Recorder) Waiting(now map[[2]string]int) { r.waiting.set(now) }

// class is the class of size of so many GPUs.
func class(gpus int64) string {
	switch {
	case gpus <= 0:
		return "0"
	case gpus == 1:
		return "1"
	case gpus < 8:
		return "2-7"
	case gpus < 64:
		return "8-63"
	}
	return "64+"
}
