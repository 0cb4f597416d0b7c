package gpu

import (
	"fmt"
	"strings"
)

// SimulatedVariable names the environment variable that tells a container
// which simulated devices it holds: "GPU-sim-0a1b=A100,GPU-sim-2c3d=A100".
const SimulatedVariable = "MUSTER_GPUS"

// Environ gives the variables for a container that holds these devices, as
// NAME=value:
//
//   - CUDA_VISIBLE_DEVICES lists the UUIDs of the real ones, which is what CUDA
//     and every framework above it obey. It is empty where there is none, so
//     that they see none: not even that of somebody else.
//   - NVIDIA_VISIBLE_DEVICES says the same to NVIDIA's container runtime; its
//     word for none is "void".
//   - MUSTER_GPUS lists the simulated ones with their models, for programs that
//     want to know. It is left out where there is none. Frameworks do not know
//     it and run on the CPU.
func Environ(devices []Device) []string {
	var real, pretend []string
	for _, d := range devices {
		if d.Simulated {
			pretend = append(pretend, fmt.Sprintf("%s=%s", d.UUID, d.Model))
		} else {
			real = append(real, d.UUID)
		}
	}
	visible := "void"
	if len(real) > 0 {
		visible = strings.Join(real, ",")
	}
	env := []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(real, ","), "NVIDIA_VISIBLE_DEVICES=" + visible}
	if len(pretend) > 0 {
		env = append(env, SimulatedVariable+"="+strings.Join(pretend, ","))
	}
	return env
}
