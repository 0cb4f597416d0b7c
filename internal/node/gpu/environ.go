package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SimulatedVariable names the environment variable that tells a container
// which simulated devices it holds: "GPU-sim-0a1b=A100,GPU-sim-2c3d=A100".
const SimulatedVariable = "MUSTER_GPUS"

// OrderVariable names the environment variable that tells CUDA how to number
// devices. Only the order depends on it, so a container may set its own.
const OrderVariable = "CUDA_DEVICE_ORDER"

// Environ gives the variables for a container that holds these devices, as
// NAME=value. Alone is true if the container's programs can open no other real
// device (docs/design/accepted/031-gpu-numbers.md).
//
//   - CUDA_VISIBLE_DEVICES names the real devices. It is empty if there are none,
//     so that programs use no device of another container. If alone, it has the
//     numbers 0, 1, ..., because some programs read it as numbers: CUDA numbers
//     the devices that it can open, so these numbers are all of them, in any
//     order. Otherwise a number could name another container's device, and the
//     variable has UUIDs.
//   - CUDA_DEVICE_ORDER goes with numbers: CUDA and NVML then number alike.
//   - NVIDIA_VISIBLE_DEVICES has the UUIDs for NVIDIA's container runtime, or
//     "void", its word for none.
//   - MUSTER_GPUS lists the simulated devices with their models. It is left out
//     if there are none. Frameworks do not know it and run on the CPU.
func Environ(devices []Device, alone bool) []string {
	var real, numbers, pretend []string
	for _, d := range devices {
		if d.Simulated {
			pretend = append(pretend, fmt.Sprintf("%s=%s", d.UUID, d.Model))
		} else {
			numbers = append(numbers, strconv.Itoa(len(real)))
			real = append(real, d.UUID)
		}
	}
	visible, runtime := real, "void"
	if len(real) > 0 {
		runtime = strings.Join(real, ",")
	}
	// A device without a file of its own is reached in a way that is not known here. A
	// part of a device (MIG) has no number.
	alone = alone && len(real) > 0 && !slices.ContainsFunc(devices, func(d Device) bool {
		return !d.Simulated && (d.Node == "" || !strings.HasPrefix(d.UUID, "GPU-"))
	})
	if alone {
		visible = numbers
	}
	env := []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(visible, ","), "NVIDIA_VISIBLE_DEVICES=" + runtime}
	if alone {
		env = append(env, OrderVariable+"=PCI_BUS_ID")
	}
	if len(pretend) > 0 {
		env = append(env, SimulatedVariable+"="+strings.Join(pretend, ","))
	}
	return env
}
