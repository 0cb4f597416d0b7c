package top

import (
	"context"

	"github.com/muster-dev/muster/internal/node/gpu"
)

// openLocal returns what measures the GPUs of this machine, nil where it has none,
// and what closes it.
func openLocal(ctx context.Context) (sampler, func()) {
	opened, err := gpu.Open(ctx, gpu.Options{})
	if err != nil {
		return nil, func() {}
	}
	measure := func(ctx context.Context) map[string]Measure {
		// What cannot be measured is left blank: the rest is still worth showing.
		samples, _ := opened.Sample(ctx)
		measures := map[string]Measure{}
		for _, sample := range samples {
			measures[sample.UUID] = Measure{UtilizationPercent: sample.UtilizationPercent, MemoryUsedMiB: sample.MemoryUsedMiB}
		}
		return measures
	}
	return measure, func() { _ = opened.Close() }
}
