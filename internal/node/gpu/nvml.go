//go:build nvml && cgo

package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/muster-dev/muster/internal/node/gpu/product"
)

// management asks the driver's own library.
type management struct {
	library nvml.Interface
	// userName returns the login of a uid, and does not wait.
	userName func(uint32) string
	// mu keeps Close from pulling the library away under a call.
	mu sync.RWMutex
}

// openNVML loads the library, which is part of the driver and not of this
// program.
func openNVML(ctx context.Context, name func(uint32) string) (Source, error) {
	m := &management{library: nvml.New(), userName: name}
	if code := m.library.Init(); code != nvml.SUCCESS {
		return nil, fmt.Errorf("opening NVML: %w", code)
	}
	if _, err := m.Devices(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *management) Name() string { return "nvml" }

func (m *management) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if code := m.library.Shutdown(); code != nvml.SUCCESS {
		return fmt.Errorf("closing NVML: %w", code)
	}
	return nil
}

// each calls f for every device by index. A device without a handle, because it
// fell off its bus, has no UUID and so no identity to show: it is left out, and
// does not hide the others.
func (m *management) each(ctx context.Context, f func(index int, d nvml.Device) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	count, code := m.library.DeviceGetCount()
	if code != nvml.SUCCESS {
		return fmt.Errorf("counting the GPUs: %w", code)
	}
	for i := range count {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("asking NVML: %w", err)
		}
		device, code := m.library.DeviceGetHandleByIndex(i)
		if code != nvml.SUCCESS {
			continue
		}
		if err := f(i, device); err != nil {
			return err
		}
	}
	return nil
}

func (m *management) Devices(ctx context.Context) ([]Device, error) {
	var devices []Device
	err := m.each(ctx, func(index int, handle nvml.Device) error {
		d := Device{Index: index}
		var code nvml.Return
		if d.UUID, code = handle.GetUUID(); code != nvml.SUCCESS {
			return fmt.Errorf("asking GPU %d for its UUID: %w", index, code)
		}
		if d.Product, code = handle.GetName(); code != nvml.SUCCESS {
			d.Unhealthy = fmt.Sprintf("it does not give its name: %v", code)
		}
		d.Model = product.Model(d.Product)
		if memory, code := handle.GetMemoryInfo(); code == nvml.SUCCESS {
			d.MemoryMiB = int64(memory.Total >> 20)
		} else {
			d.Unhealthy = fmt.Sprintf("it does not give its memory size: %v", code)
		}
		if minor, code := handle.GetMinorNumber(); code == nvml.SUCCESS {
			d.Node = fmt.Sprintf("/dev/nvidia%d", minor)
		}
		if mode, _, code := handle.GetMigMode(); code == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
			d.Unhealthy = migReason
		}
		if _, _, _, failed, code := handle.GetRemappedRows(); code == nvml.SUCCESS && failed {
			d.Unhealthy = "its memory has a fault that could not be mapped away"
		}
		devices = append(devices, accessible("", d))
		return nil
	})
	return devices, err
}

func (m *management) Sample(ctx context.Context) ([]Sample, error) {
	var samples []Sample
	err := m.each(ctx, func(index int, handle nvml.Device) error {
		uuid, code := handle.GetUUID()
		if code != nvml.SUCCESS {
			return fmt.Errorf("asking GPU %d for its UUID: %w", index, code)
		}
		s := Sample{UUID: uuid, Processes: m.processes(handle)}
		if use, code := handle.GetUtilizationRates(); code == nvml.SUCCESS {
			s.UtilizationPercent = int(use.Gpu)
		}
		if memory, code := handle.GetMemoryInfo(); code == nvml.SUCCESS {
			s.MemoryUsedMiB = int64(memory.Used >> 20)
		}
		if milliwatts, code := handle.GetPowerUsage(); code == nvml.SUCCESS {
			s.PowerWatts = int(milliwatts+500) / 1000
		}
		if celsius, code := handle.GetTemperature(nvml.TEMPERATURE_GPU); code == nvml.SUCCESS {
			s.TemperatureC = int(celsius)
		}
		samples = append(samples, s)
		return nil
	})
	return samples, err
}

func (m *management) processes(handle nvml.Device) []Process {
	var list []Process
	for _, running := range []func() ([]nvml.ProcessInfo, nvml.Return){handle.GetComputeRunningProcesses, handle.GetMPSComputeRunningProcesses} {
		infos, code := running()
		if code != nvml.SUCCESS {
			continue
		}
		for _, info := range infos {
			p := Process{PID: int(info.Pid)}
			// All bits set means that the driver cannot tell.
			if info.UsedGpuMemory != ^uint64(0) {
				p.MemoryMiB = int64(info.UsedGpuMemory >> 20)
			}
			list = append(list, describe(procRoot, m.userName, p))
		}
	}
	return sortProcesses(list)
}

// driverVersion is for Explain.
func (m *management) driverVersion() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	version, code := m.library.SystemGetDriverVersion()
	if code != nvml.SUCCESS {
		return ""
	}
	return strings.TrimSpace(version)
}
