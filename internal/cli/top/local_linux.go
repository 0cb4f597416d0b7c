package top

import (
	"context"

	"github.com/muster-dev/muster/internal/node/gpu"
)

// openLocal returns what measures the GPUs of this machine, nil where it has none,
// and what closes it.
func openLocal(ctx context.Context) (Sampler, func()) {
	opened, err := gpu.Open(ctx, gpu.Options{})
	if err != nil {
		return nil, func() {}
	}
	// What cannot be measured is left blank: the rest is still worth showing.
	measure := Measured(func(ctx context.Context) []gpu.Sample { samples, _ := opened.Sample(ctx); return samples })
	return measure, func() { _ = opened.Close() }
}

// Measured makes a Sampler of the samples of a node's GPUs.
func Measured(samples func(context.Context) []gpu.Sample) Sampler {
	return func(ctx context.Context) map[string]Measure {
		measures := map[string]Measure{}
		for _, sample := range samples(ctx) {
			measures[sample.UUID] = Measure{UtilizationPercent: sample.UtilizationPercent, MemoryUsedMiB: sample.MemoryUsedMiB}
		}
		return measures
	}
}
