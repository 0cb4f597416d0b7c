//go:build linux

package doctor

import (
	"context"
	"time"

	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// shares says whether a job with a part of a GPU is kept to it here, and how to
// get there. There is nothing to say where there is no GPU.
func shares(ctx context.Context, home instance.Home, isolated bool) []Finding {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	source, err := gpu.Open(ctx, gpu.Options{Scope: string(home)})
	if err != nil {
		return nil // the check of the GPUs says why
	}
	defer func() { _ = source.Close() }()
	devices, err := source.Devices(ctx)
	if err != nil || len(devices) == 0 {
		return nil
	}
	c := gpu.Circumstances{
		Device: devices[0], Devices: len(devices), Isolated: isolated,
		Share:  gpu.Share{Milli: 500, MemoryMiB: devices[0].MemoryMiB / 2},
		Driver: gpu.DriverVersion(),
	}
	mps, err := gpu.FindMPS(ctx)
	if c.MPS = mps; err != nil {
		c.NoMPS = err.Error()
	}
	return []Finding{judge(gpu.Enforce(c), c)}
}

// judge puts a verdict on shares into a finding.
func judge(e gpu.Enforcement, c gpu.Circumstances) Finding {
	f := Finding{Check: "GPU shares", Verdict: Good, Says: e.String()}
	if e.Enforced {
		return f
	}
	f.Verdict = Limited
	f.Says += "; frameworks are told their part, and nothing stops a process that takes more"
	switch {
	case c.Isolated:
		f.Fix = "for shares that are enforced, start the daemon (nvidia-cuda-mps-control -d) and then muster up --tier plain"
	case c.MPS == nil:
		f.Fix = "start the daemon as the user who runs Muster: nvidia-cuda-mps-control -d"
	}
	return f
}
