package manager

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What a later manager of a process registers is what is served.
func TestTheLatestIsServed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, value := range []float64{1, 2} {
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "held", Help: "GPUs."})
		gauge.Set(value)
		if err := (latest{registry}).Register(gauge); err != nil {
			t.Fatal(err)
		}
		got, err := registry.Gather()
		if err != nil || len(got) != 1 || got[0].GetMetric()[0].GetGauge().GetValue() != value {
			t.Errorf("%v is served instead of %v, %v", got, value, err)
		}
	}
	if n := testutil.CollectAndCount(registry); n != 1 {
		t.Errorf("%d are served", n)
	}
}
