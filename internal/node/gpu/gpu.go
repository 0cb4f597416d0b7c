package gpu

import (
	"context"
)

// Device is one whole GPU of this machine.
type Device struct {
	// Index is the device's index as its driver counts, from 0.
	Index int
	// UUID identifies the device machine-wide: "GPU-" and a UUID, or
	// "GPU-sim-" and a hash for a simulated one.
	UUID string
	// Model is the short name people ask for, such as A100 (see product.Model).
	Model string
	// Product is the driver's full name, such as "NVIDIA A100-SXM4-80GB".
	Product string
	// MemoryMiB is the size of the device's memory.
	MemoryMiB int64
	// Simulated is true for a device that was declared and does not exist.
	Simulated bool
	// Node is the device file, such as /dev/nvidia0; empty if there is none.
	Node string
	// Unhealthy says why the device must not be given out; empty if it may.
	Unhealthy string
}

// Process is a process that uses a device.
type Process struct {
	// PID is the process's id as this process sees it.
	PID int
	// User is the login of its owner, or "uid N" where that is not known, or not
	// yet; empty if it cannot be seen.
	User string
	// Command is its command line, or its name where that cannot be read;
	// at most 200 characters.
	Command string
	// MemoryMiB is the device memory it holds; 0 if the driver does not say.
	MemoryMiB int64
	// Server is true for a server of NVIDIA's MPS, which computes on behalf of others.
	Server bool
}

// Sample is what one device did at one moment. A figure that the driver does
// not give is 0.
type Sample struct {
	// UUID says which device.
	UUID string
	// UtilizationPercent is the share of time, 0 to 100, in which a kernel ran
	// during the driver's last sampling period.
	UtilizationPercent int
	// MemoryUsedMiB is the device memory in use.
	MemoryUsedMiB int64
	// PowerWatts is the power drawn.
	PowerWatts int
	// TemperatureC is the temperature in degrees Celsius.
	TemperatureC int
	// Processes are the processes that compute on the device, by PID.
	Processes []Process
}

// Source is where devices come from. Its methods may be called concurrently.
type Source interface {
	// Devices lists the devices by index. The list is read anew at each call,
	// so a device that became unhealthy shows it.
	Devices(ctx context.Context) ([]Device, error)
	// Sample measures every device once, by index.
	Sample(ctx context.Context) ([]Sample, error)
	// Name says what the source is: "nvml", "nvidia-smi", "simulated" or
	// "none".
	Name() string
	// Close gives back what the source holds. It must be called once.
	Close() error
}

// Options says where to look for devices. The zero value looks for real ones.
type Options struct {
	// Simulate declares pretend devices instead of looking for real ones, such
	// as "8xA100" or "4xA100,2xH100:40Gi" (see ParseSimulated).
	Simulate string
	// Scope enters the UUIDs of simulated devices: the data folder, so that
	// they stay the same over restarts and differ between two Musters of one
	// machine. Default: the machine's host name alone.
	Scope string
	// Host enters the UUIDs of simulated devices beside Scope. Default: the
	// machine's host name, which in a pod is the pod's and another each time.
	Host string
	// Root is where the files of the machine are that has the driver, for a
	// process in a container. Default: its own root.
	Root string
	// Give says that the devices are given out: device files that programs need and
	// cannot make are made. Default: nothing but locks is made.
	Give bool
	// Await has a source without devices look for a driver anew whenever it is
	// asked for devices: one may be installed later.
	Await bool
	// UserName returns the login of a uid for display. It must not wait: samples are
	// made with it. Default: "uid N".
	UserName func(uid uint32) string
	// LockDir is the folder of the machine-wide locks. Default: DefaultLockDir.
	LockDir string
}
