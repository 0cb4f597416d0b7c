package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// errNotBuiltIn says that this program was built without NVML.
var errNotBuiltIn = errors.New("this program was built without it (build tag nvml)")

// Open finds the machine's devices: the simulated ones if any are declared,
// else those of NVML, else those of nvidia-smi, else none. A driver that does
// not work is not an error here, because a machine without devices still has
// work to do; Explain tells of it. The locks of all devices found are made
// (PrepareLocks). The caller closes the source.
func Open(ctx context.Context, options Options) (Source, error) {
	source, err := find(ctx, options)
	if err != nil {
		return nil, err
	}
	devices, err := source.Devices(ctx)
	if err == nil && len(devices) > 0 {
		err = PrepareLocks(options.LockDir, devices)
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

func find(ctx context.Context, options Options) (Source, error) {
	if options.Simulate != "" {
		host := options.Host
		if host == "" {
			var err error
			if host, err = os.Hostname(); err != nil {
				return nil, fmt.Errorf("naming the simulated GPUs: %w", err)
			}
		}
		return newSimulated(options.Simulate, host, options.Scope)
	}
	smi := func(ctx context.Context) (Source, error) { return openSMIIn(ctx, options.Root) }
	for _, open := range []func(context.Context) (Source, error){openNVML, smi} {
		source, err := open(ctx)
		if err == nil {
			return source, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking for GPUs: %w", err)
		}
	}
	return none{}, nil
}
